"""The invitation sweeper: closes the invitations whose time has passed, in small batches with pauses, so that nobody waits for it."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog
import trio

from actors.outages import Outage
from core.usecases.invitations import Invitations

log = structlog.get_logger()

_INTERVAL: Final = 60.0
# What a batch locks, whoever answers one of these invitations may have to wait for: some milliseconds.
_BATCH: Final = 50
_SHORTEST_BREATH: Final = 0.005


class InvitationSweeper:
    name = "invitation_sweeper"

    def __init__(self, invitations: Invitations, *, spread: Callable[[], float], interval: float = _INTERVAL, batch: int = _BATCH) -> None:
        self._invitations = invitations
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
            log.info("invitations_expired", invitations=total)
        return total

    async def _close(self, since: datetime | None) -> tuple[int, datetime | None]:
        return await self._outage.wait_out(lambda: self._invitations.expire_due(since, self._batch))
