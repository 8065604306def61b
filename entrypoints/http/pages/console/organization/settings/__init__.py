"""The settings of an organization: branding, domain, mail server, audit log, and deletion."""
