"""Cases about what others are told."""
