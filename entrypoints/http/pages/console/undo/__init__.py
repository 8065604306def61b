"""Changes of settings that a page puts back."""
