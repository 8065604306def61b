"""Password hashing. It is slow on purpose, so it is bounded and never runs on the event loop's thread."""

from typing import Protocol

from core.domain.identity.priority import Priority
from core.domain.secrets import Password


class PasswordHasher(Protocol):
    """Argon2 in worker threads implements it."""

    async def hash(self, password: Password, priority: Priority = Priority.STRANGER) -> str:
        """The encoded hash. Raises `Overloaded` when the queue is full for this priority."""

    async def verify(self, encoded: str | None, password: Password, priority: Priority = Priority.STRANGER) -> bool:
        """Whether the password matches. Without a hash, the same work is done against a decoy and the answer is False, so that the time
        does not tell who has a password. Raises `Overloaded` as `hash` does.
        """

    def is_outdated(self, encoded: str) -> bool:
        """Whether the hash was made with other parameters than those in force. It is renewed at the next successful sign-in."""


class CommonPasswords(Protocol):
    """A shipped list implements it."""

    def contains(self, password: Password) -> bool: ...
