"""Encryption for one recipient: an X25519 key whose private half is elsewhere. The sender makes a key of its own for each message. Both
public halves are part of the derivation, so a message opens with the key that it was sealed for and no other.
"""

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

PUBLIC_BYTES = 32


def cipher_for(recipient: X25519PublicKey, purpose: bytes) -> tuple[AESGCM, bytes]:
    """The cipher of one message, and the public half that the recipient needs. Raises `ValueError` for a key that is not one."""
    own = X25519PrivateKey.generate()
    public = own.public_key().public_bytes_raw()
    return _cipher(own.exchange(recipient), purpose, public, recipient.public_bytes_raw()), public


def cipher_from(public: bytes, recipient: X25519PrivateKey, purpose: bytes) -> AESGCM:
    """Raises `ValueError` for a public half that is none."""
    shared = recipient.exchange(X25519PublicKey.from_public_bytes(public))
    return _cipher(shared, purpose, public, recipient.public_key().public_bytes_raw())


def _cipher(shared: bytes, purpose: bytes, own: bytes, recipient: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, salt=None, info=purpose + own + recipient).derive(shared))
