"""Tells what waits for somebody's decision in an organization."""

from core.domain.platform.todos import Todos
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from ports.clock import Clock
from ports.platform.todos import TodoLookup


class OpenTodos(Frozen):
    lookup: TodoLookup
    clock: Clock

    async def of(self, member: Member) -> Todos:
        return await self.lookup.of(member.organization, self.clock.now())
