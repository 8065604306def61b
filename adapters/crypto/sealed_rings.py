"""A key ring, sealed for a recovery key that is kept elsewhere: whoever has the backup alone cannot open it.

The recovery key is an X25519 key in PEM. A sealed ring is the text `postern-ring-1`, a line end, the public half of a key of its own, and
the ring under AES-256-GCM. Both public halves are part of the derivation, so a ring opens with the key that it was sealed for and no other.
"""

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from ports.encryption import CannotOpen

_BEGINNING: Final = b"postern-ring-1\n"
_PUBLIC: Final = 32
# The key is derived anew for each ring, and seals nothing else.
_NONCE: Final = bytes(12)


class RecoveryKeyUnusable(Exception):
    """The message is one sentence for the operator, and shows no key."""


def seal_ring(ring: str, public_key: bytes, backup: str) -> bytes:
    """Raises `RecoveryKeyUnusable`."""
    try:
        recipient = load_pem_public_key(public_key)
    except ValueError:
        recipient = None
    if not isinstance(recipient, X25519PublicKey):
        raise RecoveryKeyUnusable("The recovery key must be the public half of an X25519 key, in PEM")
    own = X25519PrivateKey.generate()
    public = own.public_key().public_bytes_raw()
    cipher = _cipher(own.exchange(recipient), public, recipient.public_bytes_raw())
    return _BEGINNING + public + cipher.encrypt(_NONCE, ring.encode(), backup.encode())


def open_ring(sealed: bytes, private_key: bytes, backup: str) -> str:
    """Raises `RecoveryKeyUnusable`, and `CannotOpen` for a ring that was sealed for another key or altered."""
    try:
        recipient = load_pem_private_key(private_key, None)
    except (ValueError, TypeError):
        recipient = None
    if not isinstance(recipient, X25519PrivateKey):
        raise RecoveryKeyUnusable("The recovery key must be an X25519 private key, in PEM and without a password")
    body = sealed.removeprefix(_BEGINNING)
    if len(body) == len(sealed) or len(body) < _PUBLIC:
        raise CannotOpen("not a sealed key ring")
    public = body[:_PUBLIC]
    cipher = _cipher(recipient.exchange(X25519PublicKey.from_public_bytes(public)), public, recipient.public_key().public_bytes_raw())
    try:
        return cipher.decrypt(_NONCE, body[_PUBLIC:], backup.encode()).decode()
    except InvalidTag:
        raise CannotOpen("altered, or sealed for another recovery key") from None


def _cipher(shared: bytes, own: bytes, recipient: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, salt=None, info=_BEGINNING + own + recipient).derive(shared))
