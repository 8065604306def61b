"""The signature of the payment provider's news: `t=<seconds>,v1=<hex>`, perhaps with several `v1` and with schemes that we do not know."""

import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from core.domain.errors import BadRequest, Unauthorized
from core.domain.secrets import Secret

TOLERANCE: Final = timedelta(minutes=5)
_LONGEST: Final = 4096
# During a change of secrets, the provider signs with each of them. Nobody has more than a few.
_MOST_SIGNATURES: Final = 16
_DIGITS: Final = 12
_SCHEME: Final = "v1"


def require_header(header: str | None) -> str:
    """Raises `BadRequest`."""
    if header is None:
        raise BadRequest("The header billing-signature is missing")
    return header


def require_text(body: bytes) -> None:
    """Raises `BadRequest`."""
    try:
        body.decode()
    except UnicodeDecodeError:
        raise BadRequest("The body is not UTF-8") from None


def require_signature(header: str, body: bytes, secrets: Sequence[Secret], now: datetime) -> None:
    """Raises `Unauthorized` unless one of the secrets has signed this very body within five minutes before or after now: the provider's
    clock and ours may differ. All signatures are compared with all secrets, so the time that this takes does not tell which one matched.
    """
    stamp, signatures = _parts(header)
    message = stamp.encode() + b"." + body
    expected = [hmac.new(secret.reveal().encode(), message, "sha256").hexdigest().encode() for secret in secrets]
    matches = [hmac.compare_digest(one, signature.encode()) for one in expected for signature in signatures]
    if not any(matches):
        raise Unauthorized("The signature does not match")
    if abs(int(stamp) - now.timestamp()) > TOLERANCE.total_seconds():
        raise Unauthorized("The signature is too old, or the clocks differ by more than five minutes")


def _parts(header: str) -> tuple[str, Sequence[str]]:
    if len(header) > _LONGEST or not header.isascii():
        raise Unauthorized("The signature header cannot be read")
    parts = [part.strip().partition("=") for part in header.split(",")]
    stamps = [value for name, _, value in parts if name == "t"]
    signatures = [value for name, _, value in parts if name == _SCHEME]
    if len(stamps) != 1 or not stamps[0].isdigit() or len(stamps[0]) > _DIGITS or not 0 < len(signatures) <= _MOST_SIGNATURES:
        raise Unauthorized("The signature header cannot be read")
    return stamps[0], signatures
