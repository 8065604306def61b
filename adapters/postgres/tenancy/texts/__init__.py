"""Texts of organizations, and of the installation, in place of ours."""
