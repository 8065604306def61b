"""Tells what the frame of a page of the console says. Nobody changes the place in somebody else's name."""

from core.domain.identifiers import UserId
from core.domain.identity.callers import Caller
from core.domain.platform.frames import FrameFacts
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from ports.clock import Clock
from ports.platform.frames import FrameLookup


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
