"""The subscription expirer: writes down that the periods of active subscriptions have ended, in small batches with pauses."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog
import trio

from actors.outages import Outage
from core.usecases.subscriptions import Subscriptions

log = structlog.get_logger()

# Tokens and answers know at once that a period has ended; lists, counts and whoever listens to events, after so long at most.
_INTERVAL: Final = 15.0
# What a batch holds, whoever changes one of these subscriptions or their plans may have to wait for: some milliseconds.
_BATCH: Final = 100
_SHORTEST_BREATH: Final = 0.005


class SubscriptionExpirer:
    name = "subscription_expirer"

    def __init__(
        self, subscriptions: Subscriptions, *, spread: Callable[[], float], interval: float = _INTERVAL, batch: int = _BATCH
    ) -> None:
        self._subscriptions = subscriptions
        self._spread = spread
        self._interval = interval
        self._batch = batch
        self._outage = Outage(self.name, spread)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        # Processes that start together shall not look together. When they do, each passes over what the other has in hand.
        await trio.sleep(self._interval * self._spread())
        while True:
            await self._expire_all()
            await trio.sleep(self._interval * (1 + self._spread() / 5))

    async def _expire_all(self) -> None:
        total = 0
        # Each batch begins where the last one ended: going over the dead index entries of all before would make a long round ever slower.
        since: datetime | None = None
        while True:
            began = trio.current_time()
            expired, since = await self._expire(since)
            total += expired
            if expired < self._batch:
                break
            # As long as it worked, so that it never takes more than half of a connection's time, however much there is.
            await trio.sleep(max(_SHORTEST_BREATH, trio.current_time() - began))
        if total:
            log.info("subscriptions_expired", subscriptions=total)

    async def _expire(self, since: datetime | None) -> tuple[int, datetime | None]:
        return await self._outage.wait_out(lambda: self._subscriptions.expire_due(since, self._batch))
