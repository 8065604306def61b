"""Set-up links and their drafts."""
