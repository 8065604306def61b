"""The mail domains of an organization: their proofs, and where their people sign in."""
