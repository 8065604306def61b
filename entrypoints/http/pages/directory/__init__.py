"""Directories by SAML: their answers and sign-outs, and the pages of a test."""
