"""The store of budgets of mails."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import OrganizationId
from core.domain.identity.registering.mail_budgets import Budget, BudgetLane, BudgetStanding, Counted


class MailBudgetStore(Protocol):
    """Outside a unit of work, `count`, `find_all` and `of_organization` may be called."""

    async def count(self, lane: BudgetLane, budgets: Sequence[Budget], now: datetime, *, may_wait: bool, known: bool = True) -> Counted:
        """Counts one mail in all budgets, or in none, in one statement: the first of them that is used up keeps it from the others. A mail
        that `may_wait` is counted for the next hour that has room, while its network and the installation have places for waiting; if no
        hour of a day has room, it waits for longer than that, and only the reserve may send it. An
        organization is named by its slug; one that does not exist has no budget. Of 50 requests at once, no more go than the budget holds.
        Unless it is `known`, it counts for its network alone, at the same cost.
        """

    async def find_all(self, since: datetime, now: datetime, most: int) -> Sequence[BudgetStanding]:
        """The budgets that have held something back since then, or that somebody has lifted, the last first."""

    async def of_organization(self, organization: OrganizationId, now: datetime) -> BudgetStanding | None:
        """None while nothing has counted in it."""

    async def lift(self, budget: Budget, until: datetime, now: datetime, most: int) -> BudgetStanding | None:
        """Lifts a budget. None when so many are lifted already, or its organization does not exist."""

    async def restore(self, budget: UUID, now: datetime) -> BudgetStanding | None:
        """Ends an exception. The answer still says until when it would have lasted. None when there is none."""
