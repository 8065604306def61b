"""The keys that sign open registrations."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.federation.open_registrations import RegistrationKey


class KnownRegistrationKeys(Protocol):
    """The installation's keys as this process knows them. It is a cache."""

    async def all(self) -> Sequence[RegistrationKey]:
        """All keys, the oldest first. The first call of an installation makes one. Raises `Unavailable` when none have ever been read."""

    async def find(self) -> Sequence[RegistrationKey]:
        """As the database has them at this moment. Makes none."""


class RegistrationKeyStore(Protocol):
    """All methods need a unit of work."""

    async def add(self, key: str, sealed_secret: bytes, at: datetime) -> None: ...

    async def delete(self, keys: Sequence[str]) -> None: ...
