"""Password hashing. It is slow on purpose, so it is bounded and never runs on the event loop's thread."""

from collections.abc import Collection, Sequence
from datetime import date
from typing import Protocol

from core.domain.identity.foreign_hashes.hashes import ForeignHash
from core.domain.identity.priority import Priority
from core.domain.secrets import Password
from core.frozen import Frozen


class Examined(Frozen):
    """Whether a password matches, and the moment before which nobody learns that it does not, by the clock of the hasher. None: at once."""

    matches: bool
    not_before: float | None = None


class PasswordHasher(Protocol):
    """Argon2 in worker threads implements it."""

    async def hash(self, password: Password, priority: Priority = Priority.STRANGER) -> str:
        """The encoded hash. Raises `Overloaded` when the queue is full for this priority."""

    async def verify(self, encoded: str | None, password: Password, priority: Priority = Priority.STRANGER) -> bool:
        """Whether the password matches. Without a hash, the same work is done against a decoy and the answer is False, so that the time
        does not tell who has a password. Raises `Overloaded` as `hash` does.
        """

    async def examine(self, encoded: str | None, password: Password, priority: Priority = Priority.STRANGER) -> Examined:
        """Like `verify`, where a stranger may learn from the time of a refusal. While hashes of other systems remain, these take different
        times, so the caller waits by `hold_back` before it refuses anything.
        """

    async def hold_back(self, examined: Examined) -> None:
        """Waits until a refusal may be told. The wait takes no place in the queue."""

    async def renew(self, encoded: str, password: Password, priority: Priority = Priority.STRANGER) -> str:
        """The hash that takes the place of an outdated one. For the same hash and the same password it is the same, so that of two sign-ins
        at once neither finds the other's. Raises `Overloaded` as `hash` does.
        """

    def is_outdated(self, encoded: str) -> bool:
        """Whether another system made the hash, or it has other parameters than those in force. It is renewed at the next successful
        sign-in.
        """

    async def expect(self, shapes: Collection[str]) -> None:
        """Says which shapes the stored hashes of other systems have: from now on, every refusal takes as long as the slowest of them. Those
        that are new here are measured. Raises `Overloaded` as `hash` does.
        """

    async def stored(self, hashes: Sequence[ForeignHash]) -> Sequence[str]:
        """The texts under which hashes of other systems are kept, in the same order. Those that are fast to guess at are first wrapped
        in Argon2id, a few at a time. Raises `Overloaded` as `hash` does.
        """


class CommonPasswords(Protocol):
    """A shipped list implements it."""

    def contains(self, password: Password) -> bool: ...


class BreachedPasswords(Protocol):
    """A file with the hashes of stolen passwords implements it, or a service that knows them."""

    async def contains(self, password: Password) -> bool:
        """Without a statement. A service that does not answer in time knows nothing."""


class ListedPasswords(Frozen):
    """What a list of stolen passwords says of itself."""

    hashes: int
    day: date
    """When it was made."""


class WatchedFile(Protocol):
    """A file that the operator may exchange meanwhile."""

    async def look(self) -> ListedPasswords | None:
        """Takes a new content, once it has proved whole. Returns what is in force from then on; None if nothing is."""
