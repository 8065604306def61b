"""The partition keeper: makes the months ahead of tables that are cut by time, and drops the months that nobody keeps any more."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

import structlog
import trio

from actors.failures import Mishaps
from actors.heartbeats import turned
from actors.outages import Outage
from ports.database import Partitions
from ports.metrics import Metrics

log = structlog.get_logger()

_INTERVAL: Final = 600.0


class PartitionKeeper:
    """Each process has one. Of two that come at once, one finds nothing to do."""

    name = "partition_keeper"

    def __init__(self, tables: Sequence[Partitions], *, metrics: Metrics, spread: Callable[[], float], interval: float = _INTERVAL) -> None:
        self._tables = tables
        self._metrics = metrics
        self._spread = spread
        self._interval = interval
        self._outage = Outage(self.name, spread)
        self._mishaps = Mishaps(self.name, metrics)
        self._began: float | None = None
        self._has_dropped = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        # A later run, after a failure, is no start of the process.
        self._began = trio.current_time() if self._began is None else self._began
        while True:
            self._has_dropped = False
            for table in self._tables:
                await self._keep(table)
            turned(pause=self._interval * 1.2)
            await trio.sleep(self._interval * (1 + self._spread() / 5))

    async def _keep(self, table: Partitions) -> None:
        for work in (self._make, self._drop, self._tell, self._tell_of_obstacles):
            try:
                await work(table)
            except Exception as error:  # noqa: BLE001 - a mishap of this table must stop neither the others nor the process
                self._mishaps.tell(error, table=table.table)

    async def _make(self, table: Partitions) -> None:
        if names := await self._outage.wait_out(table.make):
            log.info("partitions_made", table=table.table, partitions=list(names))

    async def _drop(self, table: Partitions) -> None:
        """One month a turn: a mistake must not cost all of them before somebody looks."""
        if self._has_dropped:
            return
        began = self._began
        assert began is not None  # noqa: S101 - for the type checker: `run` has set it
        if names := await self._outage.wait_out(lambda: table.drop(timedelta(seconds=trio.current_time() - began))):
            self._has_dropped = True
            log.info("partitions_dropped", table=table.table, partitions=list(names))

    async def _tell(self, table: Partitions) -> None:
        self._metrics.partitions_ahead(table.table, await self._outage.wait_out(table.ahead))

    async def _tell_of_obstacles(self, table: Partitions) -> None:
        names = await self._outage.wait_out(table.in_the_way)
        self._metrics.partitions_obstructed(table.table, len(names))
        if names:
            log.warning("partitions_obstructed", table=table.table, partitions=list(names))
