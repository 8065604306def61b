"""Protection against guessing and floods: the load of each network, and what a request must solve there."""
