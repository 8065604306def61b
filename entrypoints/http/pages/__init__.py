"""Pages for people, by their subject. What makes them is in `kit`, which imports none of them."""
