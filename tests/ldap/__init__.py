"""Directories by LDAP: Debian's slapd, and one of our own that does what no honest directory does."""
