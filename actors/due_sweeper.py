"""What the actors that close overdue things have in common: small batches with pauses, so that nobody waits for them."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import ClassVar, Final

import trio

from actors.outages import Outage

# Takes where the last batch ended and how many to close at most. Returns how many it closed, and where the next batch begins.
CloseDue = Callable[[datetime | None, int], Awaitable[tuple[int, datetime | None]]]

_SHORTEST_BREATH: Final = 0.005


class DueSweeper(ABC):
    name: ClassVar[str]

    def __init__(self, close_due: CloseDue, *, spread: Callable[[], float], interval: float, batch: int) -> None:
        self._close_due = close_due
        self._spread = spread
        self._interval = interval
        self._batch = batch
        self._outage = Outage(self.name, spread)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        # Processes that start together should not sweep together. If they do, each skips what the other has in hand.
        await trio.sleep(self._interval * self._spread())
        while True:
            await self.sweep()
            await trio.sleep(self._interval * (1 + self._spread() / 5))

    async def sweep(self) -> int:
        """Everything that is due now. Returns how many were closed."""
        total = 0
        # Each batch begins where the last one ended. Walking again over dead index entries would make a long sweep slower and slower.
        since: datetime | None = None
        while True:
            began = trio.current_time()
            closed, since = await self._close(since)
            total += closed
            if closed < self._batch:
                break
            # As long as the batch took, so that the sweep never uses more than half of a connection's time.
            await trio.sleep(max(_SHORTEST_BREATH, trio.current_time() - began))
        if total:
            self._tell(total)
        return total

    async def _close(self, since: datetime | None) -> tuple[int, datetime | None]:
        return await self._outage.wait_out(lambda: self._close_due(since, self._batch))

    @abstractmethod
    def _tell(self, total: int) -> None:
        """Logs a sweep that closed something."""
