"""The whole programs of the frameworks that we test: what npm installs for them, and the guides that show them."""
