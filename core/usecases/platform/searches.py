"""Finds things by a part of their names."""

from collections.abc import Collection, Sequence

from core.domain.platform.platform_users import INSTALLATION
from core.domain.platform.searches import MOST_READ, FoundThing, FoundThings, ThingKind
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from ports.jobs import Turns
from ports.platform import ThingLookup


class Searches(Frozen):
    lookup: ThingLookup
    turns: Turns

    async def of(self, member: Member, text: str, kinds: Collection[ThingKind]) -> Sequence[FoundThing]:
        """Things of these kinds: those that the member may list."""
        wanted = text.strip()
        return await self.lookup.of(member.organization, wanted, kinds) if wanted else ()

    async def everywhere(self, text: str) -> FoundThings:
        """For platform owners. Raises `Overloaded` when too many searches are under way."""
        wanted = text.strip()
        if not wanted:
            return FoundThings([], complete=True)
        async with self.turns.take(INSTALLATION):
            return await self.lookup.everywhere(wanted, MOST_READ)
