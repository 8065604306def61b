"""What the links in our mails lead to, where holding one is all that is known of who comes: a password is chosen, an address is proved."""
