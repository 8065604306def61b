"""Signing keys: one `current` per purpose signs, `next` is published ahead so that every process and relying party knows it before it
signs, `outgoing` still verifies until the last token that it signed has expired.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from core.domain.identifiers import KeyId
from core.domain.json import Json

# How long an outgoing key still verifies: the longest life of a token, access or ID (86 400 s), and as much again for processes that
# learn of a rotation late and for clocks that differ.
OVERLAP = timedelta(days=2)
# A relying party may keep our published keys this long without looking again; a key should have been published for longer before it signs.
PUBLISHED_AHEAD = timedelta(minutes=10)


class KeyPurpose(StrEnum):
    ACCESS = "access"
    ID = "id"

    @property
    def algorithm(self) -> str:
        return "ES256" if self is KeyPurpose.ACCESS else "RS256"


class KeyState(StrEnum):
    NEXT = "next"
    CURRENT = "current"
    OUTGOING = "outgoing"


@dataclass(frozen=True, slots=True)
class SigningKey:
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
        """Whether a token under this key may be believed: always, unless it is outgoing and its time is over."""
        return self.retires_at is None or now < self.retires_at


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a rotation did for one purpose: `activated` signs from now on, `added` is the next one, `outgoing` verifies for a while."""

    purpose: KeyPurpose
    outgoing: KeyId
    activated: KeyId
    added: KeyId
    published_for: timedelta

    @property
    def is_hasty(self) -> bool:
        """Whether relying parties may not have seen the activated key yet. Theirs will look again; a careful operator waits."""
        return self.published_for < PUBLISHED_AHEAD


def in_state(keys: Iterable[SigningKey], purpose: KeyPurpose, state: KeyState) -> SigningKey | None:
    """The one key of the purpose that signs, or the one that will sign next. None when there is none."""
    return next((key for key in keys if key.purpose is purpose and key.state is state), None)


def missing(keys: Iterable[SigningKey]) -> list[tuple[KeyPurpose, KeyState]]:
    """What an installation needs and does not have: one `current` and one `next` key for each purpose."""
    present = {(key.purpose, key.state) for key in keys}
    return [(purpose, state) for purpose in KeyPurpose for state in (KeyState.CURRENT, KeyState.NEXT) if (purpose, state) not in present]


def key_set(keys: Iterable[SigningKey], now: datetime) -> dict[str, Json]:
    """The JSON Web Key Set (RFC 7517 section 5) of every key whose tokens may be believed, the next ones included."""
    return {"keys": [key.public_jwk for key in keys if key.verifies(now)]}
