"""A PostgreSQL that goes away and comes back, under the actors of a process."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
import trio

from actors.job_worker import JobPace, JobWorker, Task, Workplace
from adapters.postgres.driver.pool import Pool
from adapters.postgres.embedded import EmbeddedPostgres
from adapters.postgres.jobs import PostgresJobQueue
from adapters.postgres.migrate import migrate
from core.domain.errors import Unavailable
from core.domain.jobs import Job, NewJob, Retry
from core.domain.mail import Email
from tests.actors.observed import RememberedMetrics
from tests.adapters.postgres.conftest import Store, make_store
from tests.conftest import CapturedLog
from tests.patience import PATIENCE
from tests.places import open_directory

RETRY = Retry(first=timedelta(milliseconds=50), longest=timedelta(seconds=1))


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    with open_directory() as directory, EmbeddedPostgres(directory, settings={"fsync": "off"}) as server:
        yield server


def worker(store: Store, begun: list[float]) -> JobWorker:
    async def note(_job: Job) -> None:
        await trio.lowlevel.checkpoint()
        begun.append(trio.current_time())

    return JobWorker(
        "worker",
        [Task("work", note, RETRY)],
        Workplace(PostgresJobQueue(store.pool, store.keyring), store.doorbell, store.clock, RememberedMetrics(), lambda: 0.999),
        pace=JobPace(poll=timedelta(hours=1)),
    )


async def test_work_goes_on_soon_after_the_server_is_back(own_server: EmbeddedPostgres, log: CapturedLog) -> None:
    """Until its pauses are as long as they ever get, an outage of some seconds stands for one of hours. Two jobs: one fell due while the
    server was away, and one is queued by another process afterwards, which the worker hears of by its bell alone.
    """
    await migrate(own_server.url("postgres"), lambda _line: None)
    pool = Pool(own_server.url("postgres"))
    store = make_store(own_server.url("postgres"), pool)
    elsewhere = make_store(own_server.url("postgres"), pool)
    begun: list[float] = []
    await add(store, due_in=3)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.doorbell.run)
        await nursery.start(worker(store, begun).run)
        await trio.to_thread.run_sync(own_server.stop)
        with trio.fail_after(PATIENCE):
            while len(log.events("doorbell_lost")) < 6 or not log.events("actor_waits"):
                await trio.sleep(0.05)
        assert not begun
        await trio.to_thread.run_sync(own_server.start)
        back_at = trio.current_time()
        await until(begun, 1)
        await add(elsewhere)
        await until(begun, 2)
        nursery.cancel_scope.cancel()
    await pool.aclose()
    # The wait itself is 1.25 s; the rest is a reserve for a busy machine.
    assert begun[0] - back_at < 4
    assert begun[1] - back_at < 6
    assert max(entry["retry_in"] for entry in log.events("doorbell_lost")) < 1.5


async def test_an_outage_uses_no_attempt_of_a_job(own_server: EmbeddedPostgres, log: CapturedLog) -> None:
    """The handler needs the database before it asks anybody, as that of an account's mail does."""
    await migrate(own_server.url("postgres"), lambda _line: None)
    pool = Pool(own_server.url("postgres"))
    store = make_store(own_server.url("postgres"), pool)
    attempts: list[int] = []
    asked: list[int] = []
    failed = trio.Event()

    async def look_up(job: Job) -> None:
        attempts.append(job.attempts)
        if len(attempts) == 1:
            await trio.to_thread.run_sync(own_server.stop)
        try:
            async with store.unit_of_work() as uow:
                await uow.accounts.find(Email("ada@example.org"))
        except Unavailable:
            failed.set()
            raise
        asked.append(job.attempts)

    once = Retry(first=timedelta(milliseconds=50), longest=timedelta(seconds=1), most_attempts=1)
    workplace = Workplace(PostgresJobQueue(store.pool, store.keyring), store.doorbell, store.clock, RememberedMetrics(), lambda: 0.999)
    await add(store)
    async with trio.open_nursery() as nursery:
        await nursery.start(JobWorker("worker", [Task("work", look_up, once)], workplace, pace=JobPace(poll=timedelta(seconds=1))).run)
        with trio.fail_after(PATIENCE):
            await failed.wait()
        await trio.to_thread.run_sync(own_server.start)
        with trio.fail_after(PATIENCE):
            while await store.count("jobs"):
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    await pool.aclose()
    assert set(attempts) == {1}
    assert len(attempts) > 1
    assert asked == [1]
    assert log.events("job_postponed")


async def add(store: Store, due_in: float | None = None) -> None:
    """Adds a job. A job for later sends no notification."""
    async with store.unit_of_work() as uow:
        await uow.jobs.add(NewJob("work", {}, run_at=None if due_in is None else store.clock.now() + timedelta(seconds=due_in)))
        await uow.commit()


async def until(begun: list[float], number: int) -> None:
    with trio.fail_after(PATIENCE):
        while len(begun) < number:
            await trio.sleep(0.02)
