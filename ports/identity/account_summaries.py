"""Summaries of accounts."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import UserId
from core.domain.identity.account_summaries import AccountSummary, StartingPlaces


class AccountSummaryLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def find(self, user: UserId, now: datetime) -> AccountSummary | None:
        """None when there is no such account."""

    async def start(self, user: UserId, now: datetime) -> tuple[AccountSummary, StartingPlaces] | None:
        """The summary, and the places where the person goes on."""
