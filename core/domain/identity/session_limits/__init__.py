"""What organizations and services say about sessions."""
