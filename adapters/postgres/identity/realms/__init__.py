"""Realms: the domains that organizations have proved, and the providers where people of these domains sign in."""
