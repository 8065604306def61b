"""Finds things by a part of their names."""

from collections.abc import Collection, Sequence

from core.domain.platform.platform_users import INSTALLATION
from core.domain.platform.searches import (
    MOST_NAME_ADDRESSES,
    MOST_NAMED,
    MOST_READ,
    FoundThing,
    FoundThings,
    NamedKind,
    NamedOne,
    ThingKind,
    name_terms,
)
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from ports.jobs import Turns
from ports.platform import ThingLookup


class Searches(Frozen):
    lookup: ThingLookup
    turns: Turns
    names: Turns
    """Of their own: whoever types does not wait for a search that reads the addresses of everybody."""

    async def of(self, member: Member, text: str, kinds: Collection[ThingKind]) -> Sequence[FoundThing]:
        """Things of these kinds: those that the member may list."""
        wanted = text.strip()
        return await self.lookup.of(member.organization, wanted, kinds) if wanted else ()

    async def named(
        self, member: Member, words: Sequence[str], addresses: Sequence[str], kinds: Collection[NamedKind]
    ) -> Sequence[NamedOne]:
        """Those of these kinds whose name is among the words, or who have one of the addresses, the likeliest first. The caller gives the
        kinds that the member may list. Raises `Overloaded` when too many searches are under way.
        """
        terms = name_terms(words)
        if not kinds or not (terms or addresses):
            return ()
        async with self.names.take(member.organization):
            return await self.lookup.named(member.organization, terms, addresses[:MOST_NAME_ADDRESSES], kinds, MOST_NAMED)

    async def everywhere(self, text: str) -> FoundThings:
        """For platform owners. Raises `Overloaded` when too many searches are under way."""
        wanted = text.strip()
        if not wanted:
            return FoundThings([], complete=True)
        async with self.turns.take(INSTALLATION):
            return await self.lookup.everywhere(wanted, MOST_READ)
