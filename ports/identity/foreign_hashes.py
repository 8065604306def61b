"""The hashes of other systems that are still stored."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from core.frozen import Frozen


class PasswordCounts(Frozen):
    """How many accounts have a password of ours, none at all, and a hash of another system, by its kind."""

    ours: int
    none: int
    foreign: Mapping[str, int]


class ForeignHashStore(Protocol):
    """All methods are transactions of their own."""

    async def shapes(self) -> Sequence[str]:
        """The first shapes that stored hashes have, in the order of the alphabet. One look into an index for each."""

    async def remaining(self) -> Mapping[str, int]:
        """How many hashes of other systems are stored, by kind. Reads the index of all of them."""

    async def counts(self) -> PasswordCounts:
        """Reads all accounts."""
