"""Tries the guides of `docs/guides/applications` with the products themselves."""
