"""Password hashes that other systems made: what they say of themselves, and the form in which we keep them."""
