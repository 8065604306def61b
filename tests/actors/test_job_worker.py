"""A job worker on the real queue: wake-ups, several processes, crashes."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog
import trio

from actors.job_worker import JobDelayed, JobPace, JobWorker, Task, Workplace
from adapters.postgres.jobs import PostgresJobQueue
from core.domain.causes import caused_by
from core.domain.identifiers import JobId
from core.domain.jobs import Job, NewJob, Retry
from core.frozen import replace
from tests.actors.observed import RememberedMetrics, no_spread
from tests.adapters.postgres.conftest import Store
from tests.conftest import CapturedLog
from tests.patience import PATIENCE
from tests.places import ROOT

RETRY: Final = Retry(first=timedelta(milliseconds=50), longest=timedelta(seconds=1))
PACE: Final = JobPace(poll=timedelta(milliseconds=500), grace=timedelta(seconds=2))
# For what comes back when its lease has run out.
SHORT: Final = replace(PACE, lease=timedelta(seconds=2))


def worker(store: Store, handle: Callable[[Job], Awaitable[None]], pace: JobPace = PACE) -> JobWorker:
    return JobWorker(
        "worker",
        [Task("work", handle, RETRY)],
        Workplace(PostgresJobQueue(store.pool, store.keyring), store.doorbell, store.clock, RememberedMetrics(), no_spread),
        pace=pace,
    )


async def add(store: Store, number: int = 1) -> list[JobId]:
    async with store.unit_of_work() as uow:
        added = [await uow.jobs.add(NewJob("work", {"number": n}, sealed=True)) for n in range(number)]
        await uow.commit()
    return added


async def empty(store: Store) -> None:
    with trio.fail_after(PATIENCE):
        while await store.count("jobs"):
            await trio.sleep(0.02)


async def test_a_job_is_begun_as_soon_as_its_cause_is_committed(store: Store) -> None:
    async def note(_job: Job) -> None:
        """Nothing is left to do."""

    async with trio.open_nursery() as nursery:
        await nursery.start(worker(store, note, JobPace(poll=timedelta(hours=1))).run)
        await trio.sleep(0.1)
        await add(store)
        await empty(store)
        nursery.cancel_scope.cancel()


async def test_several_workers_do_every_job_once(store: Store) -> None:
    done: Counter[JobId] = Counter()

    async def note(job: Job) -> None:
        await trio.sleep(0.001)
        done[job.id] += 1

    added = await add(store, 100)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(worker(store, note).run)
        await empty(store)
        nursery.cancel_scope.cancel()
    assert done == Counter(added)


async def test_a_job_that_failed_comes_back_with_the_same_id(store: Store) -> None:
    seen: list[Job] = []

    async def fail_twice(job: Job) -> None:
        seen.append(job)
        if len(seen) < 3:
            raise JobDelayed("not now")

    [added] = await add(store)
    async with trio.open_nursery() as nursery:
        await nursery.start(worker(store, fail_twice).run)
        await empty(store)
        nursery.cancel_scope.cancel()
    assert [(job.id, job.attempts) for job in seen] == [(added, 1), (added, 2), (added, 3)]


async def test_jobs_at_once_keep_to_their_own_causes_and_pass_them_on(store: Store, log: CapturedLog) -> None:
    """Each child is queued while all parents are at work. One parent has no cause."""
    requests = [store.ids.new(), store.ids.new(), None]
    causes: dict[JobId, UUID | None] = {}
    children: dict[JobId, UUID | None] = {}
    meeting: set[JobId] = set()

    async def pass_on(job: Job) -> None:
        if job.payload != {"number": 0}:
            children[job.id] = job.request
            return
        meeting.add(job.id)
        with trio.fail_after(PATIENCE):
            while len(meeting) < len(requests):
                await trio.sleep(0.01)
        async with store.unit_of_work() as uow:
            causes[await uow.jobs.add(NewJob("work", {}))] = causes[job.id]
            await uow.commit()
        structlog.get_logger().info("passed_on", cause=str(causes[job.id]))

    for request in requests:
        with caused_by(request):
            causes[(await add(store))[0]] = request
    async with trio.open_nursery() as nursery:
        await nursery.start(worker(store, pass_on).run)
        with trio.fail_after(PATIENCE):
            while len(log.events("passed_on")) < len(requests):
                await trio.sleep(0.01)
        await empty(store)
        nursery.cancel_scope.cancel()
    assert {(line["cause"], line.get("request_id", "None")) for line in log.events("passed_on")} == {
        (str(request), str(request)) for request in requests
    }
    assert set(children.values()) == set(requests)
    assert children.items() <= causes.items()


async def test_a_job_whose_end_cannot_be_written_ends_nothing_else(store: Store, log: CapturedLog) -> None:
    log.allow("work_broken")
    odd, *others = await add(store, 5)

    class Queue(PostgresJobQueue):
        refused = False

        async def complete(self, job: Job) -> bool:
            if job.id == odd and not self.refused:
                self.refused = True
                raise ValueError("cannot be written")
            return await super().complete(job)

    done: Counter[JobId] = Counter()

    async def work(job: Job) -> None:
        done[job.id] += 1

    metrics = RememberedMetrics()
    workplace = Workplace(Queue(store.pool, store.keyring), store.doorbell, store.clock, metrics, no_spread)
    async with trio.open_nursery() as nursery:
        await nursery.start(JobWorker("worker", [Task("work", work, RETRY)], workplace, pace=SHORT).run)
        await empty(store)
        nursery.cancel_scope.cancel()
    # Once more, when its lease had run out.
    assert done == {odd: 2, **dict.fromkeys(others, 1)}
    assert metrics.broken == {"worker": 1}


async def test_a_long_job_keeps_its_lease_against_the_others(store: Store) -> None:
    done: list[JobId] = []

    async def take_long(job: Job) -> None:
        await trio.sleep(3)
        done.append(job.id)

    added = await add(store)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(worker(store, take_long, SHORT).run)
        await empty(store)
        nursery.cancel_scope.cancel()
    assert done == added


async def test_killed_backends_cost_no_job(store: Store, log: CapturedLog) -> None:
    done: Counter[JobId] = Counter()

    async def note(job: Job) -> None:
        await trio.sleep(0.01)
        done[job.id] += 1

    added = await add(store, 60)
    async with trio.open_nursery() as nursery:
        await nursery.start(worker(store, note, SHORT).run)
        for _ in range(3):
            await trio.sleep(0.05)
            await store.kill_backends()
        await empty(store)
        nursery.cancel_scope.cancel()
    assert set(done) == set(added)
    assert not log.events("job_died")


async def test_a_worker_killed_in_the_middle_of_a_job_leaves_it_to_the_next(store: Store) -> None:
    [added] = await add(store)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.actors.killed_worker", store.url], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = await trio.to_thread.run_sync(process.stdout.readline)
        process.send_signal(signal.SIGKILL)
    assert line.strip() == str(added)

    seen: list[Job] = []

    async def note(job: Job) -> None:
        seen.append(job)

    async with trio.open_nursery() as nursery:
        await nursery.start(worker(store, note).run)
        await empty(store)
        nursery.cancel_scope.cancel()
    assert [(job.id, job.attempts, job.payload) for job in seen] == [(added, 2, {"number": 0})]
