"""What operators see of statements."""
