"""SAML in browsers: requests of service providers, sign-ins that begin here, and sign-out."""
