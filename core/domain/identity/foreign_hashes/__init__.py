"""Password hashes of other systems: their formats, and the form in which Postern stores them."""
