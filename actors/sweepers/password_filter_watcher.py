"""The watcher of the filter of breached passwords: opens it, and looks every ten seconds for another in its place."""

from typing import Final

import trio

from actors.heartbeats import turned
from ports.passwords import WatchedFile

_INTERVAL: Final = 10.0


class PasswordFilterWatcher:
    name = "password_filter_watcher"

    def __init__(self, file: WatchedFile) -> None:
        self._file = file

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turned(pause=_INTERVAL)
            await self._file.look()
            await trio.sleep(_INTERVAL)
