"""Limits in the memory of this process: turns for costly work, and rate limits that are off."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import trio

from core.domain.errors import Overloaded
from core.domain.identifiers import OrganizationId
from core.domain.rate_limits import Place, RateLimit

AT_ONCE: Final = 2
# In the queue of one organization. A waiting request counts as in flight, and the process limits the requests in flight.
MOST_APPROVALS: Final = 8
TURN_PATIENCE: Final = 5.0
RETRY_AFTER: Final = 1.0


@dataclass(slots=True, eq=False)
class _Queue:
    """The queue of one organization. It exists only while a request waits or has its turn."""

    turn: trio.Lock = field(default_factory=trio.Lock)
    inside: int = 0


class FairTurns:
    """Takes turns for costly work. In this process, each organization has one turn at a time, and all organizations together have a few.
    Other requests wait in queues of limited length, one for each organization.

    Implements `ports.jobs.Turns`. An organization has at most one request among those that wait for the few turns of all. So a busy
    organization delays another organization by at most one turn.
    """

    def __init__(self, at_once: int = AT_ONCE, *, most_waiting: int = MOST_APPROVALS, patience: float = TURN_PATIENCE) -> None:
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


class UnlimitedBuckets:
    """Implements `ports.system.SharedBuckets` for an installation with `POSTERN_RATE_LIMITS=off`."""

    async def take(self, _limit: RateLimit, _key: str) -> float:
        await trio.lowlevel.checkpoint()
        return 0.0

    async def take_all(self, limits: Sequence[RateLimit], _key: str, _around: Sequence[Place] = ()) -> Sequence[float]:
        await trio.lowlevel.checkpoint()
        return [0.0 for _ in limits]

    async def give_back(self, _limit: RateLimit, _key: str, _around: Sequence[Place] = ()) -> None:
        await trio.lowlevel.checkpoint()

    async def forget_full(self) -> int:
        await trio.lowlevel.checkpoint()
        return 0
