"""Texts of organizations in place of ours."""
