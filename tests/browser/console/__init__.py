"""Walks through the console, in a browser."""
