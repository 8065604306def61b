"""Actors that tell of what has happened, when the request that caused it has long been answered."""
