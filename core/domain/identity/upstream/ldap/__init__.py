"""Directories that speak LDAP: their settings, filters, answers to a password, and tests."""
