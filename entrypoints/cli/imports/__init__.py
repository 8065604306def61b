"""`postern import`: people and clients of another system come over."""
