"""What an organization does with its own sign-in providers."""
