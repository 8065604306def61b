"""Attacks through further providers of the installation."""
