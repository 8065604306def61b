"""The purgers: each removes the remaining rows of deleted things of one kind, for example services, so slowly that requests stay fast."""

from datetime import timedelta
from typing import Final
from uuid import UUID

import trio

from actors.heartbeats import turned
from actors.job_worker import JobPace, JobRefused, JobWorker, Task, Workplace
from actors.outages import Outage
from core.domain.jobs import Job, Retry
from core.usecases.jobs import Purge

# No `give_up_after`: a purge is tried until it succeeds. A day without a database must not leave data behind that was promised to be gone.
RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5))
TIMEOUT: Final = timedelta(hours=6)
# One purge at a time in each process. Several purges would only take turns on the same disk.
PACE: Final = JobPace(concurrency=1)
# Requests that began before the deletion may still write rows that refer to the deleted thing. After this delay, such requests have ended.
DELAY: Final = timedelta(seconds=3)
_INTERVAL: Final = 600.0
# The purger pauses as long as the last batch took, and never less than this. So a purge uses at most half of one connection's time.
_SHORTEST_BREATH: Final = 0.005


class Purger:
    """`kind` is the kind of the purger's jobs. The payload of a `service.purge` job names a `service`."""

    def __init__(
        self,
        kind: str,
        purge: Purge,
        workplace: Workplace,
        *,
        interval: float = _INTERVAL,
        pace: JobPace = PACE,
        delay: timedelta = DELAY,
        name: str = "",
    ) -> None:
        self._owner = kind.partition(".")[0]
        self.name = name or f"{self._owner}_purger"
        self._purge = purge
        self._clock = workplace.clock
        self._delay = delay
        self._spread = workplace.spread
        self._interval = interval
        self._outage = Outage(self.name, workplace.spread)
        task = Task(kind, self._handle, RETRY, TIMEOUT)
        self._worker = JobWorker(self.name, [task], workplace, pace=pace)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._worker.run)
            nursery.start_soon(self._look_for_stranded)
            task_status.started()

    async def _look_for_stranded(self) -> None:
        turned(pause=self._interval * 1.2, part="stranded")
        # Processes that start together should not look together.
        await trio.sleep(min(self._interval, 10) * self._spread())
        while True:
            await self._outage.wait_out(self._purge.take_up_stranded)
            turned(pause=self._interval * 1.2, part="stranded")
            await trio.sleep(self._interval * (1 + self._spread() / 5))

    async def _handle(self, job: Job) -> None:
        try:
            owner = UUID(str(job.payload.get(self._owner)))
        except ValueError:
            raise JobRefused(f"The payload names no {self._owner}") from None
        # The delay is a sleep here and not a later due time, because a sleeping worker would notice a later due time only at its next poll.
        turned(pause=self._delay.total_seconds())
        await trio.sleep(max(0.0, (job.created_at + self._delay - self._clock.now()).total_seconds()))
        began = trio.current_time()

        async def breathe() -> None:
            nonlocal began
            # The worker's own bound is the timeout of a whole purge, which is hours.
            turned(pause=trio.current_time() - began)
            await trio.sleep(max(_SHORTEST_BREATH, trio.current_time() - began))
            began = trio.current_time()

        await self._purge.run(owner, breathe)
