"""Databases that are filled before something is measured."""
