"""Where summaries of accounts are looked up."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import UserId
from core.domain.identity.account_summaries import AccountSummary


class AccountSummaryLookup(Protocol):
    """Outside any unit of work: one statement."""

    async def find(self, user: UserId, now: datetime) -> AccountSummary | None:
        """None when there is no such account."""
