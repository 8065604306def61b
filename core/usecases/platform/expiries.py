"""Tells what ends soon."""

from collections.abc import Sequence

from core.domain.platform.expiries import Expiry
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from ports.clock import Clock
from ports.platform.expiries import ExpiryLookup


class Expiries(Frozen):
    lookup: ExpiryLookup
    clock: Clock

    async def of(self, member: Member) -> Sequence[Expiry]:
        return await self.lookup.of(member.organization, self.clock.now())

    async def everywhere(self) -> Sequence[Expiry]:
        """For platform owners."""
        return await self.lookup.everywhere(self.clock.now())
