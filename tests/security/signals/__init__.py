"""Attacks on shared signals."""
