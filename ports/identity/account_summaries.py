"""Summaries of accounts."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import UserId
from core.domain.identity.account_summaries import AccountSummary


class AccountSummaryLookup(Protocol):
    """One statement and one round trip, outside any unit of work. Only PostgreSQL implements it."""

    async def find(self, user: UserId, now: datetime) -> AccountSummary | None:
        """None when there is no such account."""
