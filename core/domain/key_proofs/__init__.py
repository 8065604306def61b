"""Proofs of keys (DPoP, RFC 9449): a token that is bound to a key is good with a proof of that key alone."""
