"""What stands in for others where Postern is tried: providers, directories, a mail server. The tests use it, too."""
