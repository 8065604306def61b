"""What use cases need to know about limits of sessions."""
