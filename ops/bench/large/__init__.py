"""A large installation beside a small one, whose organizations are of the same size."""
