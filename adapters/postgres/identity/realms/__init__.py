"""Realms: the domains that organizations have proved, and the providers that their people sign in at."""
