"""Sealed values as text, for links, forms and cookies: what goes out and comes back is kept nowhere."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from core.domain.identity.endings.sealed import Sealed
from ports.encryption import CannotOpen, KeyRing


def sealed_text(keyring: KeyRing, plaintext: bytes, kind: Sealed) -> str:
    return urlsafe_b64encode(keyring.seal(plaintext, kind.context)).rstrip(b"=").decode()


def opened_text(keyring: KeyRing, text: str, kind: Sealed) -> bytes:
    """Raises `CannotOpen`, also for a text that nobody has sealed."""
    try:
        sealed = urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
    except ValueError:
        raise CannotOpen("it is no text of ours") from None
    return keyring.open(sealed, kind.context)
