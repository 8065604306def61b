"""Set-up links, and who has started a test."""
