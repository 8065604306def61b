"""Commands about the record: what happened, and what followed from it."""
