"""Whoever says which terms people are asked to accept."""
