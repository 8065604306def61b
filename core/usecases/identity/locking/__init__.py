"""Accounts that organizations make for people."""
