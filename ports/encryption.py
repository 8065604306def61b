"""Encryption of what the database keeps: authenticated, under a ring of keys, bound to the place where it is stored."""

from typing import Protocol


class KeyRing(Protocol):
    def seal(self, plaintext: bytes, context: str) -> bytes:
        """Encrypt under the ring's first key. `context` names the table, column and row; opening it elsewhere fails."""

    def open(self, sealed: bytes, context: str) -> bytes:
        """Raises `CannotOpen` when the key is unknown, the bytes were altered, or the context is another."""

    def is_outdated(self, sealed: bytes) -> bool:
        """Whether it was sealed under another key than the ring's first."""

    def current_key_id(self) -> str: ...


class CannotOpen(Exception):
    """A sealed value could not be opened: a fault of configuration or of storage, never the caller's."""
