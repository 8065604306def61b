"""The image: made from the wheel, the locked libraries and a pinned list of Debian's packages, without a daemon (docs/decisions/0143)."""
