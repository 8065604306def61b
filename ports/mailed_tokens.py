"""Where mailed tokens are kept."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import UserId
from core.domain.mailed_tokens import MailedToken, MailedTokenPurpose


class MailedTokenStore(Protocol):
    """Part of the unit of work."""

    async def issue(self, token: MailedToken) -> None:
        """Earlier unused ones of the same person and purpose end with it."""

    async def find(self, digest: bytes, purposes: Collection[MailedTokenPurpose]) -> MailedToken | None:
        """Used and expired ones too, as long as they are kept. None when there is none of these purposes."""

    async def redeem(self, digest: bytes, purposes: Collection[MailedTokenPurpose], at: datetime) -> MailedToken | None:
        """None when it is unknown, expired or used: of two callers, one gets None."""

    async def end(self, user: UserId, purpose: MailedTokenPurpose, at: datetime) -> None:
        """The links of one purpose that were mailed to this person work no more. May be repeated."""

    async def end_all(self, user: UserId, at: datetime) -> None:
        """Those of every purpose."""
