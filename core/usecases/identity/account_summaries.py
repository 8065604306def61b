"""Account summaries: all that the pages of one's own account tell at a glance, in one round trip."""

from core.domain.errors import Unauthorized
from core.domain.identifiers import UserId
from core.domain.identity.account_summaries import AccountSummary
from ports.clock import Clock
from ports.identity.account_summaries import AccountSummaryLookup


class AccountSummaries:
    def __init__(self, lookup: AccountSummaryLookup, clock: Clock) -> None:
        self._lookup = lookup
        self._clock = clock

    async def of(self, user: UserId) -> AccountSummary:
        found = await self._lookup.find(user, self._clock.now())
        if found is None:
            raise Unauthorized("There is no such account any more")
        return found
