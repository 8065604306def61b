"""Machine keys: a program shows such a key to act without a person. Services have API keys, and directories have SCIM tokens. Each kind
says to whom a key belongs and what its holder may do. All of them are made, named, found and marked as used in one way.
"""

import hmac
from datetime import datetime
from typing import Final, Generic, TypeVar

from core.domain.errors import BadRequest, OrganizationNotActive, Unauthorized
from core.domain.lines import typed_line
from core.domain.secrets import Token
from core.frozen import Frozen

LONGEST_NAME: Final = 100

Key = TypeVar("Key")
Holder = TypeVar("Holder")


class NewMachineKey(Frozen, Generic[Key]):
    """A new key, at the only moment at which its text is known. `key` is the stored part."""

    key: Key
    text: Token


class KnownKey(Frozen, Generic[Holder]):
    """A key as the database knows it for this request. The owner of the key exists."""

    holder: Holder
    digest: bytes
    expires_at: datetime | None
    organization_is_active: bool

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


def holder_of(known: KnownKey[Holder] | None, shown: Token, now: datetime, refusal: str) -> Holder:
    """The holder of the shown key. Raises `Unauthorized` with this refusal when there is no such key or it has expired, and
    `OrganizationNotActive`.
    """
    if known is None or not hmac.compare_digest(known.digest, shown.digest()) or known.is_expired(now):
        # An unknown and an expired key get the same answer: only the holder of a good key may learn more.
        raise Unauthorized(refusal)
    if not known.organization_is_active:
        raise OrganizationNotActive
    return known.holder


def key_name(text: str) -> str:
    """The name as it is stored. Raises `BadRequest`."""
    name = typed_line("name", text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters", words="field_length", values={"least": 1, "most": LONGEST_NAME})
    return name


def prefix_of(text: Token) -> str:
    """The beginning of the key, which is no secret. People tell their keys apart by it."""
    return text.reveal().rpartition("_")[0]
