"""Actors that look for due work at intervals, and do it."""
