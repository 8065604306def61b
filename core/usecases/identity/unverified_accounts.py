"""Accounts that somebody registered with an address that nobody ever proved, and that nobody ever used: they end after a time."""

from datetime import datetime, timedelta

from core.domain.identifiers import PrivacyRequestId
from core.domain.identity.accounts import registration_lapsed
from core.domain.identity.privacy import forget_job
from core.frozen import Frozen
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory


class UnverifiedLook(Frozen):
    """What one look at a batch of unproved accounts came to."""

    looked_at: int
    ended: int
    last: datetime | None
    """When the last of these accounts was made. The next batch begins after it."""


class UnverifiedAccounts(Frozen):
    unit_of_work: UnitOfWorkFactory
    system: System
    retention: timedelta
    """Zero: such accounts stay."""

    async def end_due(self, after: datetime | None, limit: int) -> UnverifiedLook:
        """Ends the accounts among one batch of unproved ones, the oldest first, that nobody ever used. Accounts that somebody holds at this
        moment are left for the next round: a person may just prove the address.
        """
        if not self.retention:
            return UnverifiedLook(0, 0, after)
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            held = await uow.accounts.hold_unproved(now, self.retention, after, limit)
            # A second statement, since the first does not see what others wrote before it got the locks.
            unused = await uow.accounts.never_used([one.id for one in held], now)
            for user in unused:
                request = PrivacyRequestId(self.system.ids.new())
                await uow.service_users.delete_account(user, request, now)
                await uow.jobs.add(forget_job(request))
            if unused:
                await uow.record_all([registration_lapsed(user) for user in unused])
                await uow.commit()
        return UnverifiedLook(len(held), len(unused), held[-1].created_at if held else after)
