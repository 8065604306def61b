"""Privacy: the ties that hold an account, the data that a person receives, and the rows that go when an account is forgotten."""
