"""The store of platform owners."""

from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import UserId


class PlatformOwnerStore(Protocol):
    """All methods need a unit of work."""

    async def exist(self) -> bool: ...

    async def exist_besides(self, user: UserId) -> bool:
        """Whether there is another active platform owner."""

    async def promote(self, email: Email) -> UserId | None:
        """Make an existing, active account with a verified address a platform owner. None when there is no such
        account. May be repeated.
        """

    async def put_in_office(self, user: UserId, at: datetime) -> bool:
        """Make an active account with a verified address a platform owner. False when the account is not active and verified, or is a
        platform owner already.
        """

    async def put_out_of_office(self, user: UserId, at: datetime) -> bool:
        """False when the account is not a platform owner. After `hold`."""

    async def hold(self) -> None:
        """Nobody else changes the set of platform owners until the transaction ends. Call it before any account is held."""

    async def hold_first(self) -> None:
        """Only one first start of the installation runs at a time, across all processes, until the transaction ends."""
