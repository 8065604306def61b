"""Tells what waits for somebody's decision in an organization."""

from core.domain.platform.matters import Matters
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from ports.clock import Clock
from ports.platform.matters import MatterLookup


class OpenMatters(Frozen):
    lookup: MatterLookup
    clock: Clock

    async def of(self, member: Member) -> Matters:
        return await self.lookup.of(member.organization, self.clock.now())
