"""A job worker over minutes and hours: pauses, heartbeats, outages, shutdown."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
import trio

from actors.foundation import LONGEST_SILENCE, Mailbox
from actors.job_worker import DEFAULT_PACE, JobDelayed, JobPace, JobRefused, JobWorker, Task, Workplace
from adapters.postgres.jobs import PostgresDoorbell
from core.domain.errors import Unavailable
from core.domain.jobs import CAN_WAIT, Job, Retry
from core.frozen import replace
from tests.actors.kept_queue import KeptQueue
from tests.actors.observed import RememberedMetrics, no_spread
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True

Handler = Callable[[Job], Awaitable[None]]
RETRY = Retry(first=timedelta(seconds=10), longest=timedelta(minutes=10), give_up_after=timedelta(hours=1))


@dataclass(slots=True)
class WatchedWorker:
    """A worker, with its queue, metrics and log in view of the test."""

    queue: KeptQueue = field(default_factory=KeptQueue)
    doorbell: PostgresDoorbell = field(default_factory=lambda: PostgresDoorbell(""))
    metrics: RememberedMetrics = field(default_factory=RememberedMetrics)
    handled: list[tuple[float, Job]] = field(default_factory=list)

    def worker(self, handle: Handler, *, retry: Retry = RETRY, pace: JobPace = DEFAULT_PACE, minutes: float = 10) -> JobWorker:
        async def noted(job: Job) -> None:
            self.handled.append((trio.current_time(), job))
            await handle(job)

        return JobWorker(
            "worker",
            [Task("work", noted, retry, timedelta(minutes=minutes)), Task("other", noted, retry)],
            Workplace(self.queue, self.doorbell, self.queue.clock, self.metrics, no_spread),
            pace=pace,
        )

    def state(self) -> list[str]:
        return [row.state for row in self.queue.rows.values()]

    def errors(self) -> list[str]:
        return [error for row in self.queue.rows.values() for error in row.errors]


@asynccontextmanager
async def at_work(worker: JobWorker) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        yield
        nursery.cancel_scope.cancel()


async def succeed(_job: Job) -> None:
    await trio.lowlevel.checkpoint()


def raising(error: Exception) -> Handler:
    async def fail(_job: Job) -> None:
        raise error

    return fail


async def forever(_job: Job) -> None:
    await trio.sleep_forever()


def taking(seconds: float) -> Handler:
    async def work(_job: Job) -> None:
        await trio.sleep(seconds)

    return work


async def test_a_job_is_done_and_goes_away() -> None:
    bench = WatchedWorker()
    bench.queue.add()
    async with at_work(bench.worker(succeed)):
        await trio.sleep(1)
    assert bench.state() == ["done"]
    assert bench.metrics.jobs == [("work", True)]


async def test_a_ring_ends_the_wait_and_what_is_queued_soon_after_is_claimed_with_it() -> None:
    bench = WatchedWorker()
    async with at_work(bench.worker(succeed)):
        await trio.sleep(3)
        asked = len(bench.queue.times("claim"))
        for _ in range(3):
            bench.queue.add("other")
            bench.doorbell.ring("other")
            await trio.sleep(0.005)
        assert len(bench.queue.times("claim")) == asked
        await trio.sleep(0.02)
        assert (len(bench.handled), len(bench.queue.times("claim"))) == (3, asked + 1)


async def test_a_job_whose_ring_was_lost_is_found_in_the_end() -> None:
    bench = WatchedWorker()
    async with at_work(bench.worker(succeed)):
        await trio.sleep(1)
        bench.queue.add()
        await trio.sleep(LONGEST_SILENCE)
        assert len(bench.handled) == 1


async def test_a_worker_learns_of_a_job_for_later_by_its_ring() -> None:
    bench = WatchedWorker()
    async with at_work(bench.worker(succeed)):
        await trio.sleep(1)
        bench.queue.add(due_in=40)
        bench.doorbell.ring("work")
        await trio.sleep(39.9)
        assert bench.handled == []
        await trio.sleep(0.2)
        assert len(bench.handled) == 1


async def test_the_job_of_a_worker_that_died_is_taken_up_when_its_lease_ends() -> None:
    bench = WatchedWorker()
    job = bench.queue.add()
    await bench.queue.claim(["work"], 1, timedelta(seconds=60))
    async with at_work(bench.worker(succeed)):
        await trio.sleep(59)
        assert bench.handled == []
        await trio.sleep(1.1)
        assert [done.id for _, done in bench.handled] == [job]


async def test_a_failed_job_is_told_to_the_other_workers_who_may_outlive_this_one() -> None:
    bench = WatchedWorker()
    others = Mailbox.rung_by(bench.doorbell, "work")
    bench.queue.add()
    async with at_work(bench.worker(raising(ValueError("no")))):
        assert await others.wait(1)


async def test_a_worker_with_a_rhythm_asks_at_times_that_nothing_queued_has_a_part_in() -> None:
    draws = [0.0, 0.5, 0.2, 0.9, 0.4, 0.0, 0.0, 0.0]

    async def asked(*, busy: bool) -> list[float]:
        bench = WatchedWorker()
        spread = iter(draws)
        workplace = Workplace(bench.queue, bench.doorbell, bench.queue.clock, bench.metrics, lambda: next(spread))
        pace = JobPace(rhythm=timedelta(seconds=4))
        began = trio.current_time()
        async with at_work(JobWorker("worker", [Task("work", succeed, RETRY)], workplace, pace=pace)):
            for due_in in (0.0, 0.1, 0.3):
                await trio.sleep(1.7)
                if busy:
                    bench.queue.add(due_in=due_in)
                    bench.doorbell.ring("work")
            await trio.sleep(4)
        assert bench.state() == ["done"] * (3 if busy else 0)
        return [round(at - began, 3) for at in bench.queue.times("claim")]

    # Its times are between a quarter of the rhythm and a whole one apart: 1.0, 3.5, 5.1, 8.8.
    assert await asked(busy=False) == [0]
    # Queued at 1.7, 3.4 and 5.1, and due at 1.7, 3.5 and 5.4.
    assert await asked(busy=True) == [0, 3.5, 5.1, 8.8]


async def test_the_worker_wakes_when_the_next_job_falls_due() -> None:
    bench = WatchedWorker()
    bench.queue.add(due_in=7)
    began = trio.current_time()
    async with at_work(bench.worker(succeed)):
        await trio.sleep(8)
    assert bench.handled[0][0] - began == pytest.approx(7, abs=0.01)


async def test_an_idle_worker_asks_seldom() -> None:
    bench = WatchedWorker()
    async with at_work(bench.worker(succeed)):
        await trio.sleep(3600)
    assert len(bench.queue.calls) <= 32


async def test_a_due_job_that_others_hold_does_not_make_it_ask_without_pause() -> None:
    class ContestedQueue(KeptQueue):
        async def claim(self, kinds: Sequence[str], limit: int, lease: timedelta) -> Sequence[Job]:
            for job in await super().claim(kinds, limit, lease):
                await self.retry(job, job.created_at, "somebody else was faster")
            return []

    bench = WatchedWorker(queue=ContestedQueue())
    bench.queue.add(due_in=-60)
    async with at_work(bench.worker(succeed)):
        await trio.sleep(60)
    assert len(bench.queue.times("claim")) < 300


async def test_no_more_jobs_are_in_hand_than_the_pace_allows() -> None:
    bench = WatchedWorker()
    for _ in range(20):
        bench.queue.add()
    most = at_once = 0

    async def count(_job: Job) -> None:
        nonlocal most, at_once
        at_once += 1
        most = max(most, at_once)
        await trio.sleep(1)
        at_once -= 1

    async with at_work(bench.worker(count, pace=JobPace(concurrency=3))):
        await trio.sleep(8)
    assert most == 3
    assert bench.state() == ["done"] * 20


@pytest.mark.parametrize(("priority", "began"), [(0, [0.0, 0.01, 0.02]), (1, [0.0, 0.01, 0.02]), (CAN_WAIT, [0.0, 0.05, 0.1])])
async def test_after_a_job_that_can_wait_its_hand_rests(priority: int, began: list[float]) -> None:
    bench = WatchedWorker()
    for _ in began:
        bench.queue.add(priority=priority)
    async with at_work(bench.worker(taking(0.01), pace=JobPace(concurrency=1))):
        await trio.sleep(1)
    assert [at for at, _ in bench.handled] == pytest.approx(began, abs=0.001)


async def test_a_rest_is_short_and_ends_with_the_worker() -> None:
    bench = WatchedWorker()
    for _ in range(2):
        bench.queue.add(priority=CAN_WAIT)
    async with at_work(bench.worker(taking(10), pace=JobPace(concurrency=1))):
        await trio.sleep(10.3)
        assert [at for at, _ in bench.handled] == pytest.approx([0, 10.2], abs=0.01)
        await trio.sleep(9.95)
        stopped = trio.current_time()
    assert bench.state() == ["done", "done"]
    assert trio.current_time() == pytest.approx(stopped, abs=0.01)


async def test_failures_are_tried_again_after_growing_pauses_until_given_up(log: CapturedLog) -> None:
    bench = WatchedWorker()
    bench.queue.add()
    async with at_work(bench.worker(raising(JobDelayed("not now")))):
        await trio.sleep(7200)
    times = [round(at - bench.handled[0][0]) for at, _ in bench.handled]
    assert times == [0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030]
    assert bench.state() == ["dead"]
    assert set(bench.errors()) == {"not now"}
    assert {succeeded for _, succeeded in bench.metrics.jobs} == {False}
    assert len({job.id for _, job in bench.handled}) == 1
    assert len(log.events("job_died")) == 1


async def test_a_delay_may_name_its_own_length() -> None:
    bench = WatchedWorker()
    bench.queue.add()
    async with at_work(bench.worker(raising(JobDelayed("not now", after=timedelta(seconds=100))))):
        await trio.sleep(150)
    assert [round(at - bench.handled[0][0]) for at, _ in bench.handled] == [0, 100]


async def test_a_refused_job_dies_at_once() -> None:
    bench = WatchedWorker()
    bench.queue.add()
    async with at_work(bench.worker(raising(JobRefused("never")))):
        await trio.sleep(1)
    assert bench.state() == ["dead"]
    assert bench.errors() == ["never"]


async def test_an_unknown_error_is_noted_by_its_class_alone(log: CapturedLog) -> None:
    bench = WatchedWorker()
    bench.queue.add()

    async def fail_in_a_nursery(_job: Job) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise ValueError("token=very-secret")

    async with at_work(bench.worker(fail_in_a_nursery)):
        await trio.sleep(1)
    assert bench.errors() == ["ValueError"]
    assert isinstance(log.events("job_failed")[0]["exc_info"], ValueError)


async def test_one_job_that_fails_does_not_disturb_the_others() -> None:
    bench = WatchedWorker()
    bad = bench.queue.add()
    for _ in range(5):
        bench.queue.add()

    async def fail_one(job: Job) -> None:
        await trio.sleep(1)
        if job.id == bad:
            raise ValueError("broken")

    async with at_work(bench.worker(fail_one)):
        await trio.sleep(5)
    assert bench.state() == ["waiting"] + ["done"] * 5


async def test_a_handler_that_takes_too_long_is_cut_off_and_tried_again() -> None:
    bench = WatchedWorker()
    bench.queue.add()
    async with at_work(bench.worker(forever, minutes=1)):
        await trio.sleep(65)
    assert bench.errors() == ["Not done within 60 s"]
    assert bench.state() == ["waiting"]


async def test_the_lease_is_kept_while_the_handler_runs() -> None:
    bench = WatchedWorker()
    id = bench.queue.add()  # noqa: A001 - the noun's own word
    async with at_work(bench.worker(taking(300))):
        for _ in range(29):
            await trio.sleep(10)
            assert bench.queue.rows[id].job.leased_until > bench.queue.clock.now()
        await trio.sleep(20)
    assert bench.state() == ["done"]
    assert len(bench.handled) == 1


async def test_a_worker_that_lost_its_lease_stops_and_says_nothing_about_the_job(log: CapturedLog) -> None:
    bench = WatchedWorker()
    id = bench.queue.add()  # noqa: A001 - the noun's own word
    async with at_work(bench.worker(taking(300))):
        await trio.sleep(5)
        bench.queue.steal(id)
        await trio.sleep(20)
        assert len(log.events("job_lease_lost")) == 1
    assert bench.state() == ["waiting"]
    assert not bench.metrics.jobs
    assert not {"complete", "retry", "bury"} & {name for name, _ in bench.queue.calls}


async def test_a_result_that_comes_after_the_lease_is_dropped(log: CapturedLog) -> None:
    bench = WatchedWorker()
    id = bench.queue.add()  # noqa: A001 - the noun's own word
    async with at_work(bench.worker(taking(10))):
        await trio.sleep(5)
        bench.queue.steal(id)
        await trio.sleep(6)
    assert bench.state() == ["waiting"]
    assert len(log.events("job_lease_lost")) == 1


async def test_an_outage_of_the_database_is_waited_out_and_told_once(log: CapturedLog) -> None:
    bench = WatchedWorker()
    async with at_work(bench.worker(succeed)):
        await trio.sleep(1)
        bench.queue.away_until = trio.current_time() + 600
        await trio.sleep(590)
        bench.queue.add()
        await trio.sleep(60)
        # The listener is connected again, too.
        bench.doorbell.ring("work")
        await trio.sleep(1)
    assert bench.state() == ["done"]
    assert [entry["detail"] for entry in log.events("actor_waits")] == ["gone"]
    [over] = log.events("actor_goes_on")
    # A worker with nothing to do notices an outage when it looks.
    assert over["seconds"] > 600 - LONGEST_SILENCE


@pytest.mark.parametrize("seconds", [30, 200, 390])
async def test_work_in_hand_over_an_outage_is_done_once(seconds: float) -> None:
    """Its lease has run out when the database is back: the worker must not claim its own jobs again before it has reported their end."""
    bench = WatchedWorker()
    for _ in range(4):
        bench.queue.add()
    async with at_work(bench.worker(taking(seconds), pace=JobPace(concurrency=8))):
        await trio.sleep(25)
        bench.queue.away_until = trio.current_time() + 300
        await trio.sleep(400)
    assert bench.state() == ["done"] * 4
    assert len(bench.handled) == 4


@pytest.mark.parametrize("error", [Unavailable(retry_after=2), JobDelayed("it rests", asked=False)], ids=str)
async def test_an_attempt_that_asked_nobody_does_not_count(error: Exception, log: CapturedLog) -> None:
    """Neither is the job given up, nor do its pauses grow."""
    bench = WatchedWorker()
    bench.queue.add()
    once = replace(RETRY, most_attempts=1)
    async with at_work(bench.worker(raising(error), retry=once)):
        await trio.sleep(65)
    assert [round(at - bench.handled[0][0]) for at, _ in bench.handled] == [0, 10, 20, 30, 40, 50, 60]
    assert {job.attempts for _, job in bench.handled} == {1}
    assert bench.state() == ["waiting"]
    assert set(bench.errors()) == {str(error) if isinstance(error, JobDelayed) else "Unavailable"}
    assert bench.metrics.jobs == []
    assert len(log.events("job_postponed")) == 7


async def test_a_job_that_never_asks_anybody_is_given_up_by_its_age() -> None:
    bench = WatchedWorker()
    bench.queue.add()
    async with at_work(bench.worker(raising(Unavailable(retry_after=2)))):
        await trio.sleep(7200)
    assert bench.state() == ["dead"]
    assert bench.handled[-1][0] - bench.handled[0][0] == pytest.approx(3590, abs=11)


async def test_a_postponed_job_that_another_worker_has_meanwhile_is_left_to_it(log: CapturedLog) -> None:
    bench = WatchedWorker()
    job = bench.queue.add()

    async def lose(_job: Job) -> None:
        bench.queue.steal(job)
        await trio.lowlevel.checkpoint()
        raise Unavailable(retry_after=2)

    async with at_work(bench.worker(lose)):
        await trio.sleep(1)
    assert len(log.events("job_lease_lost")) == 1
    assert bench.errors() == []


async def test_at_shutdown_the_job_in_hand_is_finished() -> None:
    bench = WatchedWorker()
    bench.queue.add()
    async with at_work(bench.worker(taking(1.5))):
        await trio.sleep(1)
        stopped = trio.current_time()
    assert bench.state() == ["done"]
    assert trio.current_time() - stopped == pytest.approx(0.5, abs=0.01)


async def test_at_shutdown_no_new_job_is_begun() -> None:
    bench = WatchedWorker()
    for _ in range(3):
        bench.queue.add()
    async with at_work(bench.worker(taking(1.5), pace=JobPace(concurrency=1))):
        await trio.sleep(1)
    assert bench.state() == ["done", "waiting", "waiting"]


async def test_a_job_that_cannot_be_finished_at_shutdown_is_handed_back_at_once() -> None:
    bench = WatchedWorker()
    id = bench.queue.add()  # noqa: A001 - the noun's own word
    async with at_work(bench.worker(forever)):
        await trio.sleep(1)
        stopped = trio.current_time()
    assert trio.current_time() - stopped == pytest.approx(2, abs=0.01)
    assert bench.state() == ["waiting"]
    assert bench.queue.rows[id].due <= bench.queue.clock.now()
    assert not bench.metrics.jobs


async def test_shutdown_ends_in_time_even_when_the_database_is_away(log: CapturedLog) -> None:
    bench = WatchedWorker()
    bench.queue.add()
    async with at_work(bench.worker(forever)):
        await trio.sleep(1)
        bench.queue.away_until = trio.current_time() + 3600
        stopped = trio.current_time()
    assert trio.current_time() - stopped == pytest.approx(3, abs=0.01)
    assert len(log.events("job_left_to_its_lease")) == 1


async def test_a_handler_that_fails_while_it_is_cut_off_ends_nothing_else() -> None:
    """The handler's error and our cancellation are raised as one group."""

    async def fail_on_the_way_out(_job: Job) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("broken")

    bench = WatchedWorker()
    bench.queue.add()
    async with at_work(bench.worker(fail_on_the_way_out, minutes=1)):
        await trio.sleep(65)
        bench.queue.add("other")
        bench.doorbell.ring("other")
        await trio.sleep(1)
        assert len(bench.handled) == 2
    assert bench.errors()[0] == "ValueError"
