"""Set-up links: made by administrators and platform owners, used by a customer's administrator, and drafts that owners make active."""
