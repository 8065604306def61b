"""Keeping in step with directories that speak LDAP: people and groups come and go with their directory."""
