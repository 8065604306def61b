"""The console of the installation, below `/ui/platform`, for platform owners."""
