"""The storage watcher: keeps a sample of the tables' sizes each day, and tells the metrics how large they are."""

from collections.abc import Callable
from typing import Final

import structlog
import trio

from actors.failures import Mishaps
from actors.heartbeats import turned
from actors.outages import Outage
from ports.metrics import Metrics
from ports.platform import StorageSamples

log = structlog.get_logger()

_INTERVAL: Final = 3600.0


class StorageWatcher:
    name = "storage_watcher"

    def __init__(self, samples: StorageSamples, *, metrics: Metrics, spread: Callable[[], float], interval: float = _INTERVAL) -> None:
        self._samples = samples
        self._metrics = metrics
        self._spread = spread
        self._interval = interval
        self._outage = Outage(self.name, spread)
        self._mishaps = Mishaps(self.name, metrics)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            for work in (self._keep, self._look):
                try:
                    await work()
                except Exception as error:  # noqa: BLE001 - no sign-in needs a sample, so a mishap must not stop the process
                    self._mishaps.tell(error)
            turned(pause=self._interval * 1.2)
            await trio.sleep(self._interval * (1 + self._spread() / 5))

    async def _keep(self) -> None:
        if await self._outage.wait_out(self._samples.keep):
            log.info("storage_sampled")

    async def _look(self) -> None:
        storage = await self._outage.wait_out(self._samples.look)
        self._metrics.stored(storage.bytes, {one.name: one.bytes for one in storage.tables})
