"""The store of signing keys, and the maker of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import KeyId
from core.domain.signing_keys import KeyPurpose, SigningKey


class SigningKeyStore(Protocol):
    """All methods need a unit of work."""

    async def hold(self) -> None:
        """One writer at a time, across all processes, until the transaction ends. Readers do not wait."""

    async def all(self) -> Sequence[SigningKey]: ...

    async def add(self, key: SigningKey) -> None: ...

    async def activate(self, key: KeyId, at: datetime) -> None:
        """The key goes from `next` to `current`."""

    async def retire(self, key: KeyId, until: datetime) -> None:
        """The key goes from `current` to `outgoing`, and verifies tokens until this time."""

    async def delete_retired(self, before: datetime) -> int: ...


class KeyMaker(Protocol):
    """Makes key pairs. The private half leaves the maker sealed. A hardware security module could implement it."""

    async def make(self, purpose: KeyPurpose, created_at: datetime) -> SigningKey:
        """A new key in the state `next`. RSA takes a good part of a second, so it runs in a worker thread."""


class KnownSigningKeys(Protocol):
    """The installation's keys as this process knows them: fresh while the database answers, older while it is away. It is a cache."""

    async def all(self) -> Sequence[SigningKey]:
        """Raises `Unavailable` only when none have ever been read."""

    def expire(self) -> None:
        """The keys have just changed: read them again before the next use."""
