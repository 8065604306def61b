"""What the actors have in common that close what has become due: small batches with pauses, so that nobody waits for them."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import ClassVar, Final

import trio

from actors.outages import Outage

# Takes where the last batch ended and how many to close at most; returns how many they were, and where the next one begins.
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
        # Processes that start together shall not sweep together. When they do, each passes over what the other has in hand.
        await trio.sleep(self._interval * self._spread())
        while True:
            await self.sweep()
            await trio.sleep(self._interval * (1 + self._spread() / 5))

    async def sweep(self) -> int:
        """Everything that is due now. Returns how many they were."""
        total = 0
        # Each batch begins where the last one ended: going over the dead index entries of all before would make a long sweep ever slower.
        since: datetime | None = None
        while True:
            began = trio.current_time()
            closed, since = await self._close(since)
            total += closed
            if closed < self._batch:
                break
            # As long as it worked, so that it never takes more than half of a connection's time, however much there is.
            await trio.sleep(max(_SHORTEST_BREATH, trio.current_time() - began))
        if total:
            self._tell(total)
        return total

    async def _close(self, since: datetime | None) -> tuple[int, datetime | None]:
        return await self._outage.wait_out(lambda: self._close_due(since, self._batch))

    @abstractmethod
    def _tell(self, total: int) -> None:
        """The log of a sweep that closed something."""
