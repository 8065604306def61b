"""What operators see of requests."""
