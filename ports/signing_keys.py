"""Where signing keys are kept."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import KeyId
from core.domain.signing_keys import KeyPurpose, SigningKey


class SigningKeyStore(Protocol):
    """Part of the unit of work."""

    async def hold(self) -> None:
        """One writer at a time, across all processes, until the transaction ends. Readers do not wait for it."""

    async def all(self) -> Sequence[SigningKey]: ...

    async def add(self, key: SigningKey) -> None: ...

    async def activate(self, key: KeyId, at: datetime) -> None:
        """`next` becomes `current`."""

    async def retire(self, key: KeyId, until: datetime) -> None:
        """`current` becomes `outgoing`, and verifies until this time."""

    async def delete_retired(self, before: datetime) -> int: ...


class KeyMaker(Protocol):
    """Makes key pairs. The private half leaves here sealed."""

    async def make(self, purpose: KeyPurpose, created_at: datetime) -> SigningKey:
        """A new key in the state `next`. RSA takes a good part of a second, so it runs in a worker thread."""


class KnownSigningKeys(Protocol):
    """The installation's keys as this process knows them: fresh while the database is there, older while it is away."""

    async def all(self) -> Sequence[SigningKey]:
        """Raises `Unavailable` only when none have ever been read."""

    def expire(self) -> None:
        """The keys have just changed: read them again before the next use."""
