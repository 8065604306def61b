"""The janitor: deletes expired rows, in small batches with pauses, so that requests stay fast."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog
import trio

from actors.failures import Mishaps
from actors.heartbeats import turned
from actors.outages import Outage
from ports.database import Housekeeping
from ports.metrics import Metrics

log = structlog.get_logger()

_INTERVAL: Final = 60.0
# So small that no lock is held for long and replicas keep up.
_BATCH: Final = 500
_BREATH: Final = 0.05


class Janitor:
    name = "janitor"

    def __init__(
        self,
        sweeps: Sequence[Housekeeping],
        *,
        doubt: Callable[[], Awaitable[str | None]],
        metrics: Metrics,
        spread: Callable[[], float],
        interval: float = _INTERVAL,
        batch: int = _BATCH,
    ) -> None:
        """`doubt` says why the clock cannot be believed. Nothing is swept meanwhile; each statement asks the database again."""
        self._sweeps = sweeps
        self._doubt = doubt
        self._doubted: str | None = None
        self._metrics = metrics
        self._spread = spread
        self._interval = interval
        self._batch = batch
        self._outage = Outage(self.name, spread)
        self._mishaps = Mishaps(self.name, metrics)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        turned(pause=self._interval)
        # Processes that start together should not sweep together.
        await trio.sleep(self._interval * self._spread())
        while True:
            if await self._believes_clock():
                await self._sweep_all()
            turned(pause=self._interval * 1.2)
            await trio.sleep(self._interval * (1 + self._spread() / 5))

    async def _believes_clock(self) -> bool:
        """A mishap is no reason to believe it."""
        try:
            doubted = await self._outage.wait_out(self._doubt)
        except Exception as error:  # noqa: BLE001 - a mishap must not stop the process
            self._mishaps.tell(error)
            return False
        self._metrics.clock_doubted(doubted)
        if doubted != self._doubted:
            if doubted is None:
                log.info("clock_believed")
            else:
                log.warning("clock_doubted", why=doubted)
            self._doubted = doubted
        return doubted is None

    async def _sweep_all(self) -> None:
        for sweep in self._sweeps:
            try:
                await self._sweep(sweep)
            except Exception as error:  # noqa: BLE001 - a mishap of this sweep must not stop the others
                self._mishaps.tell(error, sweep=sweep.name)

    async def _sweep(self, sweep: Housekeeping) -> None:
        total = 0
        while True:
            deleted = await self._outage.wait_out(lambda: sweep.delete_expired(self._batch))
            total += deleted
            turned(pause=self._interval * 1.2)
            if deleted < self._batch:
                break
            await trio.sleep(_BREATH)
        if total:
            log.info("janitor_swept", what=sweep.name, deleted=total)
