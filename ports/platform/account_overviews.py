"""Accounts as operators see them."""

from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.platform.account_overviews import AccountOverview


class AccountOverviews(Protocol):
    """Outside any unit of work."""

    async def find(self, who: Email | UserId) -> AccountOverview | None:
        """None when there is no such account."""
