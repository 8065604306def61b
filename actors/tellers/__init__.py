"""Actors that tell people what has happened to their accounts."""
