"""Password hashing: slow on purpose, so it is bounded and never runs on the event loop's thread."""

from typing import Protocol

from core.domain.secrets import Password


class PasswordHasher(Protocol):
    async def hash(self, password: Password) -> str:
        """The encoded hash. Raises `Overloaded` when the queue is full."""

    async def verify(self, encoded: str | None, password: Password) -> bool:
        """Whether it matches. With no hash at all, the same work is done against a decoy and the answer is False: time must not tell who
        has a password.
        Raises `Overloaded` when the queue is full.
        """

    def is_outdated(self, encoded: str) -> bool:
        """Whether it was made with other parameters than those in force, and should be renewed at the next successful sign-in."""


class CommonPasswords(Protocol):
    def contains(self, password: Password) -> bool: ...
