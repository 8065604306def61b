"""One search in each place of the console: over everything that has a name, and over the pages of the place."""
