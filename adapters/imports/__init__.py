"""Reads files of other systems' people, one person at a time, whatever the files hold and however large they are."""
