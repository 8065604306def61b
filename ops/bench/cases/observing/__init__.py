"""Cases about what operators see."""
