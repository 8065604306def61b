"""What happened in the installation, and the settings in force."""
