"""Several accounts in one browser."""
