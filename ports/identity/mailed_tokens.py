"""Where mailed tokens are kept."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import UserId
from core.domain.identity.mailed_tokens import MailedToken, MailedTokenPurpose


class MailedTokenStore(Protocol):
    """Part of the unit of work."""

    async def issue(self, token: MailedToken) -> None:
        """Earlier unused ones with the same person and purpose end. Without an account of this id nothing is issued, by the same work."""

    async def find(self, digest: bytes, purposes: Collection[MailedTokenPurpose]) -> MailedToken | None:
        """Finds used and expired ones too, as long as they are kept. None when there is none with these purposes."""

    async def redeem(self, digest: bytes, purposes: Collection[MailedTokenPurpose], at: datetime) -> MailedToken | None:
        """None when it is unknown, expired or used: of two callers, one gets None."""

    async def end(self, user: UserId, purpose: MailedTokenPurpose, at: datetime) -> None:
        """Links of this purpose that were mailed to this person stop working. May be repeated."""

    async def end_all(self, user: UserId, at: datetime) -> None:
        """The same for every purpose."""
