"""Further providers of the installation."""
