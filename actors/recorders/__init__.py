"""Actors that store what requests hand in, for those who look for a fault."""
