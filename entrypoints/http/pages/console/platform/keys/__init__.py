"""Keys of the installation: keys for machines, signing keys and encryption keys."""
