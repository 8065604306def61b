"""What a browser is told when its person signs out."""
