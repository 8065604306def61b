"""Several accounts in one browser: the choice of the one in use, and the list of all."""
