"""Setup links: created by administrators and platform owners, used by a customer's administrator, with drafts that owners activate."""
