"""What commands print: lines, JSON and progress."""
