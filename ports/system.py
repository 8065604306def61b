"""What nearly every use case takes from the system: the time, new IDs and secrets, usage markers and rate limits."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

from core.domain.rate_limits import Place, RateLimit
from core.domain.secrets import Password, Secret, Token
from core.frozen import Frozen


class Clock(Protocol):
    """The time, always UTC, with its time zone.

    The system has one, and tests have one that they set.
    """

    def now(self) -> datetime: ...


class Ids(Protocol):
    """New ids. They are UUIDv7, so that rows which are made one after the other lie side by side."""

    def new(self) -> UUID: ...


class Secrets(Protocol):
    """New secrets, from the operating system's randomness."""

    def token(self) -> Token:
        """256 bits, base64url without padding."""

    def mailed_token(self) -> Token:
        """The token in the link of a mail: a random UUID, 122 bits. It is for single use within hours, and kept as a digest."""

    def key(self, kind: str) -> Token:
        """A key with which a machine identifies itself: `<kind>_<6 lower-case letters and digits>_<32 random bytes in base62>`. The part
        before the last underscore is public and tells the key apart in a list.
        """

    def key_bytes(self, length: int) -> bytes:
        """Random bytes for a key of ours."""

    def letters(self, alphabet: str, length: int) -> Secret:
        """As many letters of this alphabet, for a person to type. Choose alphabet and length so that nobody can guess the letters while
        they are valid.
        """

    def password(self) -> Password:
        """A password for a person to type once: 20 characters without look-alikes, over 100 bits."""

    def spread(self) -> float:
        """A number in [0, 1) that keeps processes from acting in step."""


class System(Frozen):
    """A use case that needs only one of the three may take that one alone."""

    clock: Clock
    ids: Ids
    secrets: Secrets


Seen = TypeVar("Seen")
Seen_contra = TypeVar("Seen_contra", contravariant=True)


class Presence(Protocol[Seen_contra]):
    """Takes the time when a session or an API key was last used. Requests call it: it never waits and never fails. A full buffer drops the
    marker and counts the drop. An actor implements it, and writes the markers down.
    """

    def seen(self, one: Seen_contra, at: datetime) -> None: ...


class PresenceStore(Protocol[Seen]):
    """PostgreSQL implements it, once for sessions and once for each kind of keys."""

    async def mark_seen(self, times: Mapping[Seen, datetime]) -> None:
        """Move the time of last use forward for many at once, in parts. The time never moves back. Unknown ids are ignored."""


class SharedBuckets(Protocol):
    """The shared stage of a rate limit: the buckets that all processes draw from.

    Where an operator turns rate limits off, buckets without a limit do.
    """

    async def take(self, limit: RateLimit, key: str) -> float:
        """Take one token in one round trip. However many callers ask at once, the bucket gives no more tokens than it holds. Returns the
        seconds to wait: 0 when there was a token.
        """

    async def take_all(self, limits: Sequence[RateLimit], key: str, around: Sequence[Place] = ()) -> Sequence[float]:
        """Take one token of each limit, still in one round trip. If all have given one, take one of each of the places around, the
        narrowest first, until one place refuses: a refused caller takes nothing from their neighbours. Returns the longest wait for each
        limit in the order of the limits, whose names differ.
        """

    async def give_back(self, limit: RateLimit, key: str, around: Sequence[Place] = ()) -> None:
        """Return a token to each bucket, because the attempt does not count after all."""

    async def forget_full(self) -> int:
        """Delete buckets that have filled up again. Returns how many were deleted."""
