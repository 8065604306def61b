"""SAML of an application."""
