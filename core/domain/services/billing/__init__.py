"""Billing: what the payment provider sells and tells."""
