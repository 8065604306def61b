"""Sign-in through upstream providers, against fakes on loopback."""
