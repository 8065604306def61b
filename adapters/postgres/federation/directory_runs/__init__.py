"""Keeping in step with directories by LDAP, in PostgreSQL."""
