"""What stands between guessers and people: how busy a place is, and what a request pays there."""
