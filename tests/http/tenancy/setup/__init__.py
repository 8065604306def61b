"""Set-up links over HTTP: made and ended by the API, and used in a browser without an account."""
