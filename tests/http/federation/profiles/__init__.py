"""Applications that hold a security profile."""
