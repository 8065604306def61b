"""The terms that organizations ask people to accept."""
