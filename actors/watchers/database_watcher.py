"""The database watcher: measures the pool, ends the waits for a server that hangs, finds among several hosts the one that takes
writes, and tells whether one does.

It needs no answer of the database, so it goes on while every other actor waits.
"""

from typing import Final

import trio

from actors.heartbeats import turned
from ports.database import Database
from ports.metrics import Metrics

_INTERVAL: Final = 1.0


class DatabaseWatcher:
    name = "database_watcher"

    def __init__(self, metrics: Metrics, database: Database) -> None:
        self._metrics = metrics
        self._database = database

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turned(pause=_INTERVAL)
            self._metrics.pool(self._database.pool_state())
            self._metrics.connections_given_up(await self._database.give_up_hung())
            self._metrics.database_hosts(await self._database.look_at_hosts())
            self._metrics.writes_failing(await self._database.write_failure())
            await trio.sleep(_INTERVAL)
