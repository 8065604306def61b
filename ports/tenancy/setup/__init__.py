"""Who tries and sets up a connection."""
