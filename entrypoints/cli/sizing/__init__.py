"""`postern size`: what an installation needs."""
