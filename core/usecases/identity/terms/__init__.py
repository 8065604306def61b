"""Terms of the installation and of organizations."""
