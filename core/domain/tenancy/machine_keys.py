"""Machine keys: a program shows one to act without a person. Services have API keys, and directories have SCIM tokens. Each kind says to
whom a key belongs and what its holder may do; all of them are made, named, found and marked as used in one way.
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
    """The only moment at which the text of a key is known. `key` is what is kept of it."""

    key: Key
    text: Token


class KnownKey(Frozen, Generic[Holder]):
    """A key as the database knows it for this request. What it belongs to exists."""

    holder: Holder
    digest: bytes
    expires_at: datetime | None
    organization_is_active: bool

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


def holder_of(known: KnownKey[Holder] | None, shown: Token, now: datetime, refusal: str) -> Holder:
    """Whose key was shown. Raises `Unauthorized` with this refusal when there is no such key or it has expired, and
    `OrganizationNotActive`.
    """
    if known is None or not hmac.compare_digest(known.digest, shown.digest()) or known.is_expired(now):
        # One answer for both cases: only the holder of a good key may learn more.
        raise Unauthorized(refusal)
    if not known.organization_is_active:
        raise OrganizationNotActive
    return known.holder


def key_name(text: str) -> str:
    """The name as it is kept. Raises `BadRequest`."""
    name = typed_line("name", text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters")
    return name


def prefix_of(text: Token) -> str:
    """How the key begins: the part that is no secret, by which people tell keys apart."""
    return text.reveal().rpartition("_")[0]
