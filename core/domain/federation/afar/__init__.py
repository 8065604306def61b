"""A yes from afar (OpenID CIBA)."""
