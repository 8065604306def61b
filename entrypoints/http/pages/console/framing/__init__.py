"""What stands around a page of the console."""
