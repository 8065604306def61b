"""Attacks on what applications ask for in the name of people."""
