"""Build argon2-cffi-bindings for this machine's processor."""
