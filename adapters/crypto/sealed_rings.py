"""A key ring, sealed for a recovery key that is kept elsewhere: whoever has the backup alone cannot open it.

The recovery key is an X25519 key in PEM. A sealed ring is the text `postern-ring-1`, a line end, the public half of a key of its own, and
the ring under AES-256-GCM. Both public halves are part of the derivation, so a ring opens with the key that it was sealed for and no other.
"""

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from adapters.crypto.recipients import PUBLIC_BYTES, cipher_for, cipher_from
from ports.crypto import CannotOpen

_BEGINNING: Final = b"postern-ring-1\n"
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
    cipher, public = cipher_for(recipient, _BEGINNING)
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
    if len(body) == len(sealed) or len(body) < PUBLIC_BYTES:
        raise CannotOpen("not a sealed key ring")
    cipher = cipher_from(body[:PUBLIC_BYTES], recipient, _BEGINNING)
    try:
        return cipher.decrypt(_NONCE, body[PUBLIC_BYTES:], backup.encode()).decode()
    except InvalidTag:
        raise CannotOpen("altered, or sealed for another recovery key") from None
