"""The metrics refresher: sets, every half minute, the gauges that nothing else sets."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

import structlog
import trio

from actors.heartbeats import turned
from actors.outages import Outage
from core.domain.errors import Overloaded, Unavailable
from core.domain.tokens import clocks_differ
from ports.database import Database
from ports.jobs import JobQueue
from ports.metrics import Metrics
from ports.record import Backlog
from ports.services.billing import WaitingBillingEvents
from ports.system import Clock

log = structlog.get_logger()

# The documentation of the metrics promises this interval.
_INTERVAL: Final = 30.0


class MetricsRefresher:
    name = "metrics_refresher"

    def __init__(
        self,
        metrics: Metrics,
        *,
        database: Database,
        queue: JobQueue,
        audit_backlog: Callable[[], Awaitable[Backlog]],
        billing_waiting: Callable[[], Awaitable[WaitingBillingEvents]],
        backup_checked: Callable[[], Awaitable[datetime | None]],
        key_ages: Callable[[], Awaitable[Mapping[str, timedelta]]],
        clock: Clock,
        spread: Callable[[], float],
    ) -> None:
        """`audit_backlog` returns the audit entries that wait to be linked, `billing_waiting` the news of the payment provider that wait to
        be applied, `backup_checked` the time at which a backup was last proved, and `key_ages` the age of the key in force, by purpose.
        """
        self._metrics = metrics
        self._database = database
        self._queue = queue
        self._audit_backlog = audit_backlog
        self._billing_waiting = billing_waiting
        self._backup_checked = backup_checked
        self._key_ages = key_ages
        self._clock = clock
        self._outage = Outage(self.name, spread)
        self._clocks_differ = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turned(pause=_INTERVAL)
            pause = _INTERVAL
            try:
                await self._ask_database()
            except (Unavailable, Overloaded) as error:
                pause = min(pause, self._outage.began(error))
            else:
                self._outage.over()
            await trio.sleep(pause)

    async def _ask_database(self) -> None:
        await self._compare_clocks()
        self._metrics.population(await self._database.population())
        states = await self._queue.state()
        self._metrics.queue(states, {state.kind: self._since(state.oldest_due) for state in states if state.oldest_due is not None})
        backlog = await self._audit_backlog()
        self._metrics.audit_backlog(backlog.pending, self._waited(backlog.oldest))
        waiting = await self._billing_waiting()
        self._metrics.billing_waiting(waiting.events, self._waited(waiting.oldest))
        self._metrics.backup_checked(await self._backup_checked())
        for purpose, age in (await self._key_ages()).items():
            self._metrics.key_age(purpose, age)

    async def _compare_clocks(self) -> None:
        # During an outage, the next statement says so.
        if not await self._database.ping():
            return
        ahead = self._database.clock_ahead
        self._metrics.clock_ahead(ahead)
        differ = clocks_differ(ahead)
        if differ:
            log.warning("clocks_differ", ahead_of_database=round(ahead.total_seconds(), 3))
        elif self._clocks_differ:
            log.info("clocks_agree")
        self._clocks_differ = differ

    def _waited(self, since: datetime | None) -> timedelta | None:
        return None if since is None else self._since(since)

    def _since(self, moment: datetime) -> timedelta:
        return max(self._clock.now() - moment, timedelta(0))
