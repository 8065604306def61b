"""Widgets of others: what their makers publish, and the verification of answers."""
