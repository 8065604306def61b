"""The applications of an organization: the services that people sign in to."""
