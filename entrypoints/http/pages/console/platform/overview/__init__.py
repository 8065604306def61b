"""The overview of the installation: its figures, its health, and its background work."""
