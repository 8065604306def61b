"""What follows from what organizations and services say about sessions."""
