"""What changes would do to people, said before they are made."""
