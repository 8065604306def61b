"""Accounts as an operator sees them."""

from typing import Protocol

from core.domain.account_overviews import AccountOverview
from core.domain.email import Email


class AccountOverviews(Protocol):
    """Outside any unit of work."""

    async def find(self, email: Email) -> AccountOverview | None:
        """None when there is no such account."""
