"""Nonces for proofs (RFC 9449 section 8): each is the HMAC of a minute. That minute and the next one, it counts."""

import hmac
from base64 import urlsafe_b64encode
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final

PURPOSE: Final = "dpop_nonces"
"""The name of the key that makes the HMACs."""
LONGEST_NONCE: Final = 100
_MINUTE: Final = 60


class NonceRule(StrEnum):
    """Whose proofs need a nonce."""

    NOBODY = "nobody"
    CONFIDENTIAL = "confidential"
    """Clients that authenticate, where they do."""
    EVERYBODY = "everybody"
    """Public clients, too, and requests with an access token."""

    def asks(self, *, is_confidential: bool) -> bool:
        return self is NonceRule.EVERYBODY or (is_confidential and self is NonceRule.CONFIDENTIAL)


def nonce_at(now: datetime, key: bytes) -> str:
    return _nonce(int(now.timestamp()) // _MINUTE, key)


def counts(nonce: str, now: datetime, key: bytes) -> bool:
    minute = int(now.timestamp()) // _MINUTE
    return any(hmac.compare_digest(nonce.encode("utf-8", "replace"), _nonce(one, key).encode()) for one in (minute, minute - 1))


def _nonce(minute: int, key: bytes) -> str:
    return urlsafe_b64encode(hmac.digest(key, str(minute).encode(), sha256)[:18]).decode()
