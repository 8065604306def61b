"""Maintains the database in small batches: expired and deleted rows, monthly partitions, and values that an older key sealed."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog
import trio

from actors.foundation import Mishaps, Outage, turned
from actors.job_worker import JobDelayed, JobPace, JobRefused, JobWorker, Task, Workplace
from core.domain.jobs import Job, Retry
from core.usecases.jobs import Purge
from core.usecases.keys import REENCRYPTION_JOB, Reencryption, RingIsBehind
from ports.database import Housekeeping, Partitions
from ports.metrics import Metrics

log = structlog.get_logger()


_INTERVAL: Final = 60.0
# So small that no lock is held for long and replicas keep up.
_BATCH: Final = 500
_BREATH: Final = 0.05
# A sweep that finds nothing rests for some rounds, more each time, up to so many: most tables of most installations have nothing to sweep.
_LONGEST_REST: Final = 9


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
        # By the name of the sweep: the rounds of its last rest, and how many of them are left.
        self._rests: dict[str, tuple[int, int]] = {}

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
            rest, left = self._rests.get(sweep.name, (0, 0))
            if left:
                self._rests[sweep.name] = rest, left - 1
                continue
            try:
                found = await self._sweep(sweep)
                rest = 0 if found or sweep.is_prompt else min(2 * rest + 1, _LONGEST_REST)
                self._rests[sweep.name] = rest, rest
            except Exception as error:  # noqa: BLE001 - a mishap of this sweep must not stop the others
                self._mishaps.tell(error, sweep=sweep.name)

    async def _sweep(self, sweep: Housekeeping) -> int:
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
        return total


# No `give_up_after`: a purge is tried until it succeeds. A day without a database must not leave data behind that was promised to be gone.
PURGE_RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5))
PURGE_TIMEOUT: Final = timedelta(hours=6)
# One purge at a time in each process. Several purges would only take turns on the same disk.
PURGE_PACE: Final = JobPace(concurrency=1)
# Requests that began before the deletion may still write rows that refer to the deleted thing. After this delay, such requests have ended.
PURGE_DELAY: Final = timedelta(seconds=3)
_PURGER_INTERVAL: Final = 600.0
# The purger pauses as long as the last batch took, and never less than this. So a purge uses at most half of one connection's time.
_SHORTEST_BREATH: Final = 0.005


class Purger:
    """Removes the remaining rows of deleted objects of one kind, for example applications, so slowly that requests stay fast.

    `kind` is the kind of the purger's jobs. The payload of a `service.purge` job names a `service`.
    """

    def __init__(
        self,
        kind: str,
        purge: Purge,
        workplace: Workplace,
        *,
        interval: float = _PURGER_INTERVAL,
        pace: JobPace = PURGE_PACE,
        delay: timedelta = PURGE_DELAY,
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
        task = Task(kind, self._handle, PURGE_RETRY, PURGE_TIMEOUT)
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
        # The delay is a sleep here and not a later due time, since it holds for every job of this kind, whoever has queued it.
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


_PARTITION_KEEPER_INTERVAL: Final = 600.0


class PartitionKeeper:
    """Creates the coming months of tables that are partitioned by time, and drops the months whose retention has ended.

    Each process has one. Of two that come at once, one finds nothing to do.
    """

    name = "partition_keeper"

    def __init__(
        self, tables: Sequence[Partitions], *, metrics: Metrics, spread: Callable[[], float], interval: float = _PARTITION_KEEPER_INTERVAL
    ) -> None:
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


# A process whose ring is behind hands the job on. A short first pause lets a process that has read the new keys take it.
REENCRYPTION_RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5), give_up_after=timedelta(days=7))
# The job goes through every encrypted value.
REENCRYPTION_TIMEOUT: Final = timedelta(hours=2)


def reencrypter(reencryption: Reencryption, workplace: Workplace) -> JobWorker:
    async def reencrypt(job: Job) -> None:
        key = job.payload.get("key")
        if not isinstance(key, str):
            raise JobRefused("The payload names no key")
        try:
            await reencryption.run(key)
        except RingIsBehind as behind:
            raise JobDelayed(str(behind)) from None

    task = Task(REENCRYPTION_JOB, reencrypt, REENCRYPTION_RETRY, REENCRYPTION_TIMEOUT)
    pace = JobPace(concurrency=1)
    return JobWorker("reencrypter", [task], workplace, pace=pace)
