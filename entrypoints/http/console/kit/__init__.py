"""What makes the pages of the console: declarations, forms, lists, records and the frame. It imports no page."""
