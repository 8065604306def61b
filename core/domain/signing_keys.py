"""Signing keys: one `current` per purpose signs, `next` is published ahead so that every process and relying party knows it before it
signs, `outgoing` still
verifies until the last token that it signed has expired.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from core.domain.identifiers import KeyId
from core.domain.json import Json


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
