"""Summaries of accounts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.account_summaries import AccountSummary, StartedApplication, StartingPlaces


class AccountSummaryLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def find(self, user: UserId, now: datetime, session: SessionId | None = None) -> AccountSummary | None:
        """None when there is no such account. `session` is the one that asks, if its directory's second factor may count."""

    async def start(self, user: UserId, now: datetime, session: SessionId | None = None) -> tuple[AccountSummary, StartingPlaces] | None:
        """The summary, and the places where the person goes on."""

    async def applications(self, user: UserId, organization: str) -> Sequence[StartedApplication]:
        """The applications of the organization with this slug that the person may use. Other people's organizations have none."""
