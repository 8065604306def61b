"""Set-up links: a customer's administrator, who has no account, sets up domain, connection, SCIM or SIEM of one organization."""
