"""Encryption of values in the database: authenticated, under a ring of keys, and bound to the place where a value is stored."""

from collections.abc import Sequence
from typing import Protocol

from core.frozen import Frozen


class KeyRing(Protocol):
    """A key management service could implement it as well as our own ring of AES keys does."""

    def __hash__(self) -> int:
        """Each ring equals itself alone."""

    def seal(self, plaintext: bytes, context: str) -> bytes:
        """Encrypt under the ring's first key. `context` names the table, column and row; opening it elsewhere fails."""

    def open(self, sealed: bytes, context: str) -> bytes:
        """Raises `CannotOpen` when the key is unknown, the bytes were altered, or the context differs."""

    def is_outdated(self, sealed: bytes) -> bool:
        """Whether it was sealed under another key than the ring's first."""

    def derive(self, purpose: str) -> bytes:
        """A key of 256 bits from the ring's first key, for this purpose alone (HKDF). Every process with this ring derives the same, so
        it is kept nowhere. What must outlive a rotation of the ring is sealed instead.
        """

    def current_key_id(self) -> str: ...

    def current_header(self) -> bytes:
        """The bytes that begin every value sealed under the ring's first key and no other. The database finds outdated values by them."""


class CannotOpen(Exception):
    """A sealed value could not be opened. The fault lies in configuration or storage, never with the caller."""


class SealedValue(Frozen):
    """One sealed value where it is stored: the row's primary key as text, and the context that it was sealed with."""

    row: str
    sealed: bytes
    context: str


class SealedColumns(Protocol):
    """Every place where the database keeps sealed values. After a rotation of the ring, these values are sealed again."""

    @property
    def columns(self) -> Sequence[str]:
        """All of them, each as `table.column`."""

    async def all(self, column: str, after: str | None, limit: int) -> Sequence[SealedValue]:
        """Up to `limit` values of the column, in the order of their rows, behind this row. The first call passes None."""

    async def outdated(self, column: str, limit: int) -> Sequence[SealedValue]:
        """Up to `limit` values of the column that were sealed under another key than the ring's first, in a stable order."""

    async def count_outdated(self, column: str) -> int:
        """How many values of the column were sealed under another key than the ring's first. Reads the whole column."""

    async def replace(self, column: str, row: str, old: bytes, new: bytes) -> bool:
        """Write the new value if the old one is still there. False when the row changed or disappeared meanwhile."""
