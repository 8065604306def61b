"""Turns: one of each organization at a time, a few of all in this process, and the others in queues of limited length."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import trio

from core.domain.errors import Overloaded
from core.domain.identifiers import OrganizationId

AT_ONCE: Final = 2
# For one organization. Each is a request in flight, and the process accepts a limited number of those.
MOST_WAITING: Final = 8
PATIENCE: Final = 5.0
RETRY_AFTER: Final = 1.0


@dataclass(slots=True, eq=False)
class _Queue:
    """For one organization. It exists only while somebody is inside."""

    turn: trio.Lock = field(default_factory=trio.Lock)
    inside: int = 0


class FairTurns:
    """Implements `ports.turns.Turns`. At most one of an organization waits for the few turns of all. So however much one organization asks
    for, the next one's turn comes after one of its.
    """

    def __init__(self, at_once: int = AT_ONCE, *, most_waiting: int = MOST_WAITING, patience: float = PATIENCE) -> None:
        self._few = trio.CapacityLimiter(at_once)
        self._queues: dict[OrganizationId, _Queue] = {}
        self._most_waiting = most_waiting
        self._patience = patience

    @asynccontextmanager
    async def take(self, organization: OrganizationId) -> AsyncIterator[None]:
        queue = self._queues.setdefault(organization, _Queue())
        if queue.inside > self._most_waiting:
            raise Overloaded(retry_after=RETRY_AFTER, detail="too many of the organization's requests wait for their turn")
        queue.inside += 1
        try:
            async with AsyncExitStack() as held:
                with trio.move_on_after(self._patience) as waiting:
                    await held.enter_async_context(queue.turn)
                    await held.enter_async_context(self._few)
                if waiting.cancelled_caught:
                    raise Overloaded(retry_after=RETRY_AFTER, detail="no turn came in time")
                yield
        finally:
            queue.inside -= 1
            if not queue.inside:
                del self._queues[organization]
