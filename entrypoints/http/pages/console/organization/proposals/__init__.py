"""Proposals of configuration documents."""
