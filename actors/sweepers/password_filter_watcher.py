"""The watcher of the filter of breached passwords: opens it, looks every ten seconds for another, and tells what is in force."""

from typing import Final

import trio

from actors.heartbeats import turned
from ports.crypto import WatchedFile
from ports.metrics import Metrics

_INTERVAL: Final = 10.0


class PasswordFilterWatcher:
    name = "password_filter_watcher"

    def __init__(self, file: WatchedFile, metrics: Metrics) -> None:
        self._file = file
        self._metrics = metrics

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turned(pause=_INTERVAL)
            self._metrics.password_filter(await self._file.look())
            await trio.sleep(_INTERVAL)
