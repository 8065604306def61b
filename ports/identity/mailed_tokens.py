"""The store of mailed tokens."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import UserId
from core.domain.identity.mailed_tokens import MailedToken, MailedTokenPurpose


class MailedTokenStore(Protocol):
    """All methods need a unit of work. Only PostgreSQL implements it."""

    async def issue(self, token: MailedToken) -> None:
        """Earlier unused tokens of the same person and purpose end. If there is no account of this id, no token is issued, by the same
        work.
        """

    async def find(self, digest: bytes, purposes: Collection[MailedTokenPurpose]) -> MailedToken | None:
        """Finds used and expired tokens too, as long as they are kept. None when no token with these purposes has the digest."""

    async def redeem(self, digest: bytes, purposes: Collection[MailedTokenPurpose], at: datetime) -> MailedToken | None:
        """None when the token is unknown, expired or used: of two callers, one gets None."""

    async def end(self, user: UserId, purpose: MailedTokenPurpose, at: datetime) -> None:
        """Links of this purpose that were mailed to this person stop working. May be repeated."""

    async def end_all(self, user: UserId, at: datetime) -> None:
        """As `end`, for every purpose."""
