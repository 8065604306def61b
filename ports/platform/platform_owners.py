"""Where it is kept who governs the platform."""

from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import UserId


class PlatformOwnerStore(Protocol):
    """Part of the unit of work."""

    async def exist(self) -> bool: ...

    async def exist_besides(self, user: UserId) -> bool:
        """Whether there is another active one."""

    async def promote(self, email: Email) -> UserId | None:
        """Make an existing, active account with a verified address a platform owner. None when there is no such
        account. May be repeated.
        """

    async def put_in_office(self, user: UserId, at: datetime) -> bool:
        """Make an active account with a verified address a platform owner. False when it is not such an account, or is a platform owner
        already.
        """

    async def put_out_of_office(self, user: UserId, at: datetime) -> bool:
        """False when it is not a platform owner. After `hold`."""

    async def hold(self) -> None:
        """The set of platform owners does not change otherwise until the transaction ends. Taken before any account is held."""

    async def hold_first(self) -> None:
        """One first start at a time, across all processes, until the transaction ends."""
