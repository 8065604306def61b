"""Pages for people whom only a further provider of the installation knows."""
