"""People arrive in the systems of applications."""
