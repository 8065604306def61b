"""Making an application, and what its developers copy."""
