"""`postern config export`, `plan`, `apply` and `schema`: configuration as a document."""
