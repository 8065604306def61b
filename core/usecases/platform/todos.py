"""Collects what the console shows about itself: todos, upcoming expiries, and the frame of a page."""

from collections.abc import Sequence

from core.domain.identifiers import UserId
from core.domain.identity.callers import Caller
from core.domain.platform.todos import Expiry, FrameFacts, Todos
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from ports.platform import ExpiryLookup, FrameLookup, TodoLookup
from ports.system import Clock


class OpenTodos(Frozen):
    lookup: TodoLookup
    clock: Clock

    async def of(self, member: Member) -> Todos:
        return await self.lookup.of(member.organization, self.clock.now())


class Expiries(Frozen):
    lookup: ExpiryLookup
    clock: Clock

    async def of(self, member: Member) -> Sequence[Expiry]:
        return await self.lookup.of(member.organization, self.clock.now())

    async def everywhere(self) -> Sequence[Expiry]:
        """For platform owners."""
        return await self.lookup.everywhere(self.clock.now())


class Frames(Frozen):
    lookup: FrameLookup
    clock: Clock

    async def of_member(self, member: Member, *, decides: bool) -> FrameFacts:
        """`decides`: the member may decide about what waits in the organization."""
        person = _changing_places(member.caller)
        if decides:
            return await self.lookup.get_in_organization(person, member.organization, self.clock.now())
        return await self.lookup.get_places(person)

    async def of_platform_owner(self, caller: Caller) -> FrameFacts:
        return await self.lookup.get_in_installation(_changing_places(caller))


def _changing_places(caller: Caller) -> UserId | None:
    return caller.user if caller.impersonator is None else None
