"""Account summaries: everything that the overview page of one's own account shows, read in one round trip."""

from collections.abc import Sequence

from core.domain.errors import Unauthorized
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.account_summaries import AccountSummary, StartedApplication, StartingPlaces
from core.frozen import Frozen
from ports.clock import Clock
from ports.identity.account_summaries import AccountSummaryLookup


class AccountSummaries(Frozen):
    lookup: AccountSummaryLookup
    clock: Clock

    async def of(self, user: UserId, session: SessionId | None = None) -> AccountSummary:
        found = await self.lookup.find(user, self.clock.now(), session)
        if found is None:
            raise Unauthorized("There is no such account any more")
        return found

    async def start(self, user: UserId, session: SessionId | None = None) -> tuple[AccountSummary, StartingPlaces]:
        """The summary, with the applications that the person may use and the organizations that the person looks after."""
        found = await self.lookup.start(user, self.clock.now(), session)
        if found is None:
            raise Unauthorized("There is no such account any more")
        return found

    async def applications(self, user: UserId, organization: str) -> Sequence[StartedApplication]:
        """The applications of the organization with this slug that the person may use."""
        return await self.lookup.applications(user, organization)
