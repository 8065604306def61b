"""How pages look: what all of them share, and whether a browser shows them light or dark."""
