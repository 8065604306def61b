"""The purgers: each takes away what is left of deleted things of one kind, at a pace at which nobody notices."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final
from uuid import UUID

import trio

from actors.job_worker import JobRefused, JobWorker, Pace, Task
from actors.outages import Outage
from core.domain.jobs import Job, Retry
from core.usecases.purge import Purge
from ports.clock import Clock
from ports.jobs import Doorbell, JobQueue
from ports.metrics import Metrics

# Until it is done, however long: what was promised to be gone does not stay because the database was away for a day.
RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5))
TIMEOUT: Final = timedelta(hours=6)
# One at a time in each process: several would only take turns on the same disk.
PACE: Final = Pace(concurrency=1)
# Requests that found it alive may end before its row goes, which what they write refers to.
DELAY: Final = timedelta(seconds=3)
_INTERVAL: Final = 600.0
# As long as the batch took, and a little: of one connection of the database, this takes half.
_SHORTEST_BREATH: Final = 0.005


class Purger:
    """`kind` is that of its jobs: that of `service.purge` names in its payload a `service`."""

    def __init__(
        self,
        kind: str,
        purge: Purge,
        *,
        queue: JobQueue,
        doorbell: Doorbell,
        clock: Clock,
        metrics: Metrics,
        spread: Callable[[], float],
        interval: float = _INTERVAL,
        pace: Pace = PACE,
        delay: timedelta = DELAY,
    ) -> None:
        self._owner = kind.partition(".")[0]
        self.name = f"{self._owner}_purger"
        self._purge = purge
        self._clock = clock
        self._delay = delay
        self._spread = spread
        self._interval = interval
        self._outage = Outage(self.name, spread)
        task = Task(kind, self._handle, RETRY, TIMEOUT)
        self._worker = JobWorker(self.name, [task], queue=queue, doorbell=doorbell, clock=clock, metrics=metrics, spread=spread, pace=pace)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._worker.run)
            nursery.start_soon(self._look_for_stranded)
            task_status.started()

    async def _look_for_stranded(self) -> None:
        # Processes that start together shall not look together.
        await trio.sleep(min(self._interval, 10) * self._spread())
        while True:
            await self._outage.wait_out(self._purge.take_up_stranded)
            await trio.sleep(self._interval * (1 + self._spread() / 5))

    async def _handle(self, job: Job) -> None:
        try:
            owner = UUID(str(job.payload.get(self._owner)))
        except ValueError:
            raise JobRefused(f"The payload names no {self._owner}") from None
        # Not a later time of the job's: a worker that sleeps would hear of it with its next poll only.
        await trio.sleep(max(0.0, (job.created_at + self._delay - self._clock.now()).total_seconds()))
        began = trio.current_time()

        async def breathe() -> None:
            nonlocal began
            await trio.sleep(max(_SHORTEST_BREATH, trio.current_time() - began))
            began = trio.current_time()

        await self._purge.run(owner, breathe)
