"""People and clients of other systems, and what becomes of them here."""
