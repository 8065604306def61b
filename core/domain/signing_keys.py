"""Signing keys. For each purpose, the `current` key signs. The `next` key is published early, so that every process and relying party knows
it before it signs. `outgoing` keys still verify until the last token that they signed has expired. After that, outgoing keys of ID tokens
only verify hints: an old ID token in a hint says which person it was made for.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.identifiers import KeyId
from core.domain.json import Json
from core.frozen import Frozen

# An outgoing key still verifies for so long: the longest life of a token (86 400 s), and as long again for processes that learn late of a
# rotation and for clocks that differ.
OVERLAP = timedelta(days=2)
# Relying parties may cache our published keys for so long. A key should be published for longer than this before it signs.
PUBLISHED_AHEAD = timedelta(minutes=10)
# Ids made by `postern keys generate` begin with the day.
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


class TokenAlgorithm(StrEnum):
    """The algorithm that signs tokens for a service."""

    RS256 = "RS256"
    """Every relying party supports this algorithm (OpenID Connect Core section 15.1)."""
    ES256 = "ES256"
    """Smaller and quicker."""


class KeyPurpose(StrEnum):
    """What a signing key signs."""

    ACCESS = "access"
    ACCESS_RS256 = "access_rs256"
    """For services that choose RS256 for the access tokens that they hold, because what checks these knows nothing else."""
    ID = "id"
    ID_ES256 = "id_es256"
    """For services that choose ES256 for their ID tokens. It is never the key of access tokens: a program that checks nothing but the
    signature must not take one for the other.
    """

    @property
    def algorithm(self) -> TokenAlgorithm:
        return TokenAlgorithm.RS256 if self in {KeyPurpose.ID, KeyPurpose.ACCESS_RS256} else TokenAlgorithm.ES256

    @property
    def is_access(self) -> bool:
        return self in {KeyPurpose.ACCESS, KeyPurpose.ACCESS_RS256}


class KeyState(StrEnum):
    """What becomes of a signing key: it is published, it signs, and then it only verifies."""

    NEXT = "next"
    CURRENT = "current"
    OUTGOING = "outgoing"


class SigningKey(Frozen):
    id: KeyId
    purpose: KeyPurpose
    state: KeyState
    public_jwk: dict[str, Json]
    sealed_private_key: bytes
    created_at: datetime
    activated_at: datetime | None
    retires_at: datetime | None

    def age(self, now: datetime) -> timedelta:
        return now - (self.activated_at or self.created_at)

    def verifies(self, now: datetime) -> bool:
        """Whether tokens signed with this key are valid: always, unless the key is outgoing and its time is over."""
        return self.retires_at is None or now < self.retires_at


class Rotation(Frozen):
    """The result of a rotation for one purpose: `activated` signs from now on, `added` is the next key, and `outgoing`
    still verifies for a while.
    """

    purpose: KeyPurpose
    outgoing: KeyId
    activated: KeyId
    added: KeyId
    published_for: timedelta

    @property
    def is_hasty(self) -> bool:
        """Whether relying parties may not have seen the activated key yet. They read the keys again when they meet an unknown key, but a
        careful operator waits.
        """
        return self.published_for < PUBLISHED_AHEAD


def in_state(keys: Iterable[SigningKey], purpose: KeyPurpose, state: KeyState) -> SigningKey | None:
    """The one key of the purpose in this state. None when there is none."""
    return next((key for key in keys if key.purpose is purpose and key.state is state), None)


def missing(keys: Iterable[SigningKey]) -> list[tuple[KeyPurpose, KeyState]]:
    """The keys that an installation needs and lacks: one `current` and one `next` for each purpose."""
    present = {(key.purpose, key.state) for key in keys}
    return [(purpose, state) for purpose in KeyPurpose for state in (KeyState.CURRENT, KeyState.NEXT) if (purpose, state) not in present]


def key_set(keys: Iterable[SigningKey], now: datetime) -> dict[str, Json]:
    """The JSON Web Key Set (RFC 7517 section 5) of every key that verifies, including the next ones."""
    return {"keys": [key.public_jwk for key in keys if key.verifies(now)]}


def sealing_context(key: KeyId) -> str:
    return f"signing_keys.sealed_private_key:{key}"


def day_of_ring_key(key: str) -> datetime | None:
    """The day in the id of an encryption key. None when the id names no day."""
    day = _DAY.match(key)
    if day is None:
        return None
    try:
        return datetime.fromisoformat(day[0]).replace(tzinfo=UTC)
    except ValueError:
        return None
