"""What signs and scopes access tokens: signing keys, audiences, and the clock skew between processes."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.formats import Json
from core.domain.identifiers import KeyId, ResourceServerId
from core.frozen import Frozen

# An outgoing key still verifies for so long: the longest life of a token (86 400 s), and as long again for processes that learn late of a
# rotation and for clocks that differ.
KEY_OVERLAP = timedelta(days=2)
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
    """The life cycle of a signing key: published, signing, and then verifying only."""

    NEXT = "next"
    CURRENT = "current"
    OUTGOING = "outgoing"


class SigningKey(Frozen):
    """A signing key of the installation. For each purpose, the `current` key signs. The `next` key is published early, so that every
    process and relying party knows it before it signs. `outgoing` keys still verify until the last token that they signed has expired.
    After that, outgoing keys of ID tokens only verify hints: an old ID token in a hint names the user whom it was issued for.
    """

    id: KeyId
    purpose: KeyPurpose
    state: KeyState
    public_jwk: dict[str, Json]
    sealed_private_key: bytes
    created_at: datetime
    activated_at: datetime | None
    retires_at: datetime | None

    @property
    def in_force_since(self) -> datetime:
        return self.activated_at or self.created_at

    def age(self, now: datetime) -> timedelta:
        return now - self.in_force_since

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


def signing_key_context(key: KeyId) -> str:
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


ONE_AT_A_TIME: Final = "resource: a token is for one API. Name one of those that were granted"
NOT_GRANTED: Final = "resource: this API was not granted, or is no longer available. Name an API that was granted, or ask the person again"


class NoAudience(Exception):
    """The request names no API, or not one alone, that the session may have a token for."""


class TokenAudience(Frozen):
    """The API that an access token is for, and the scopes that the token has there."""

    id: ResourceServerId
    identifier: str
    scopes: tuple[str, ...]
    lifetime: timedelta | None = None
    """How long the API lets its tokens last. None for as long as any access token."""
    algorithm: TokenAlgorithm = TokenAlgorithm.ES256


class TokenAudiences(Frozen):
    """The APIs that a code or a session was granted (RFC 8707). A session stores each granted API, and an access token is for one of them
    alone. The APIs themselves are in `core/domain/services/resource_servers.py`.
    """

    granted: int
    open: Sequence[TokenAudience]
    """Those of them that a request may have a token for at this moment."""

    def chosen(self, named: str | None) -> TokenAudience | None:
        """The API of the next token. None without APIs. Raises `NoAudience`."""
        if not self.granted and named is None:
            return None
        found = [audience for audience in self.open if named in {None, audience.identifier}]
        if len(found) == 1 and (named is not None or self.granted == 1):
            return found[0]
        raise NoAudience(self.missing(named))

    def missing(self, named: str | None) -> str:
        """The reason why there is no such audience."""
        return ONE_AT_A_TIME if named is None and self.granted > 1 else NOT_GRANTED


NO_AUDIENCES: Final = TokenAudiences(0, ())


MOST_APART: Final = timedelta(seconds=30)


def clocks_differ(ahead: timedelta) -> bool:
    """Returns whether the clocks of a process and of the database differ too much: the other processes would refuse the tokens that this
    process signs.

    `ahead`: by how much the process's clock is ahead of the database's. Negative: behind.
    """
    return abs(ahead) > MOST_APART


def clocks_in_words(ahead: timedelta) -> str:
    """To be read between "the process is" and "the database"."""
    return f"{abs(ahead).total_seconds():.0f} s {'behind' if ahead < timedelta(0) else 'ahead of'}"
