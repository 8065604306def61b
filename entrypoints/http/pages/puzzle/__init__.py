"""The puzzle on pages, where many requests come from."""
