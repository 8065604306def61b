"""Texts that an organization, or the installation, may put in place of ours: which, and how they may read."""
