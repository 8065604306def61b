"""The recorder of spans: it never delays anybody, tries again what may pass, counts what is lost, and holds only so many spans."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import trio
from trio.testing import MockClock

from actors import span_recorder
from actors.span_recorder import BATCH, SpanRecorder
from actors.supervisor import Supervisor
from core.domain.jobs import Retry
from ports.record import Collected, NotCollected
from tests.actors.observed import RememberedMetrics, no_spread
from tests.conftest import CapturedLog
from tests.usecases.set_clock import SetClock

PAUSES = Retry(first=timedelta(seconds=1), longest=timedelta(seconds=4), most_attempts=3)


def part(spans: int, number: int = 0) -> tuple[str, int, int]:
    """The spans of a request that has ended."""
    return ",".join([f"span {number}"] * spans), spans, 0


class AnsweringCollector:
    """Takes batches, or does with them what `answers` say, one after the other; after the last, it takes them."""

    def __init__(self, *answers: Exception | Collected | float) -> None:
        self.answers = [*answers]
        self.batches: list[int] = []
        self.told: list[str] = []
        self.times: list[float] = []

    async def collect(self, texts: Sequence[str], count: int) -> Collected:
        await trio.lowlevel.checkpoint()
        self.times.append(trio.current_time())
        answer = self.answers.pop(0) if self.answers else Collected(0)
        if isinstance(answer, float):
            await trio.sleep(answer)
            answer = Collected(0)
        if isinstance(answer, Exception):
            raise answer
        told = ",".join(texts).split(",")
        assert count == len(told)
        self.batches.append(count)
        self.told += told
        return answer

    def names(self) -> list[str]:
        return self.told


class Scene:
    def __init__(self, collector: AnsweringCollector, *, most: int = 10_000) -> None:
        self.collector = collector
        self.metrics = RememberedMetrics()
        self.recorder = SpanRecorder(
            collector, self.metrics, SetClock(datetime(2026, 1, 1, tzinfo=UTC)), spread=no_spread, most=most, pauses=PAUSES
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Callable[[], None]]:
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: self.recorder.run(task_status=task_status))
            yield nursery.cancel_scope.cancel
            nursery.cancel_scope.cancel()


def away(retry_after: str | None = None) -> NotCollected:
    return NotCollected("status 503", passes=True, retry_after=retry_after)


async def test_spans_are_sent_once_a_second_and_together(autojump_clock: MockClock) -> None:  # noqa: ARG001 - waits in no time
    scene = Scene(AnsweringCollector())
    async with scene.running():
        scene.recorder.take(*part(2, 1))
        scene.recorder.take(*part(1, 2))
        assert scene.collector.batches == []
        await trio.sleep(1.5)
        assert scene.collector.names() == ["span 1", "span 1", "span 2"]
        assert len(scene.collector.batches) == 1
        scene.recorder.take(*part(1, 3))
        await trio.sleep(1)
    assert scene.collector.names()[3:] == ["span 3"]
    assert scene.metrics.spans_by_outcome == {"sent": 4}


async def test_a_full_batch_is_sent_at_once(autojump_clock: MockClock) -> None:  # noqa: ARG001 - waits in no time
    scene = Scene(AnsweringCollector())
    async with scene.running():
        for number in range(BATCH // 100 + 2):
            scene.recorder.take(*part(100, number))
        await trio.sleep(0.1)
        assert scene.collector.batches == [BATCH // 100 * 100, 200]


async def test_what_may_pass_is_tried_again_with_pauses(
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
    log: CapturedLog,
) -> None:
    scene = Scene(AnsweringCollector(away(), away("3")))
    async with scene.running():
        scene.recorder.take(*part(2))
        await trio.sleep(20)
    first, second, third = scene.collector.times
    assert (second - first, third - second) == (1, 3)
    assert scene.metrics.spans_by_outcome == {"sent": 2}
    # One line for a row of failures, and one for its end.
    assert [len(log.events(name)) for name in ("spans_not_collected", "spans_are_collected_again")] == [1, 1]


async def test_a_collector_that_asks_for_a_very_long_rest_gets_a_minute(autojump_clock: MockClock) -> None:  # noqa: ARG001
    scene = Scene(AnsweringCollector(away("999999999")))
    async with scene.running():
        scene.recorder.take(*part(2))
        await trio.sleep(70)
    first, second = scene.collector.times
    assert second - first == 60


async def test_spans_are_given_up_after_a_few_attempts_and_at_once_when_refused(
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    scene = Scene(AnsweringCollector(away(), away(), away(), NotCollected("status 400", passes=False), Collected(rejected=2)))
    async with scene.running():
        for number in range(4):
            scene.recorder.take(*part(3, number))
            await trio.sleep(20)
    assert scene.collector.names() == ["span 2"] * 3 + ["span 3"] * 3
    assert scene.metrics.spans_by_outcome == {"failed": 3 + 3 + 2, "sent": 1 + 3}


async def test_a_mishap_loses_one_batch_and_nothing_else(autojump_clock: MockClock, log: CapturedLog) -> None:  # noqa: ARG001
    log.allow("work_broken")
    scene = Scene(AnsweringCollector(ZeroDivisionError()))
    async with scene.running():
        for number in range(2):
            scene.recorder.take(*part(3, number))
            await trio.sleep(2)
    assert scene.collector.names() == ["span 1"] * 3
    assert scene.metrics.spans_by_outcome == {"failed": 3, "sent": 3}
    assert scene.metrics.broken == {"span_recorder": 1}


async def test_while_the_collector_hangs_only_so_many_spans_wait(autojump_clock: MockClock) -> None:  # noqa: ARG001
    scene = Scene(AnsweringCollector(1000.0), most=500)
    async with scene.running():
        scene.recorder.take(*part(10))
        await trio.sleep(2)
        for number in range(1000):
            scene.recorder.take(*part(10, number))
        # What is on its way does not count among those that wait.
        assert scene.metrics.spans_by_outcome == {"dropped": 9_500}
        await trio.sleep(1100)
    assert scene.metrics.spans_by_outcome == {"dropped": 9_500, "sent": 510}
    assert scene.collector.names()[10:] == [f"span {number}" for number in range(50) for _ in range(10)]


async def test_spans_that_a_request_left_out_count_as_dropped(autojump_clock: MockClock) -> None:  # noqa: ARG001 - no stall ends it
    scene = Scene(AnsweringCollector())
    scene.recorder.take("span 0", 1, 7)
    scene.recorder.take("", 0, 0)
    assert scene.metrics.spans_by_outcome == {"dropped": 7}
    async with scene.running() as stop:
        stop()
    assert scene.collector.names() == ["span 0"]


async def test_what_waits_at_the_end_is_sent(autojump_clock: MockClock) -> None:  # noqa: ARG001 - waits in no time
    scene = Scene(AnsweringCollector(away(), Collected(0)))
    async with scene.running() as stop:
        scene.recorder.take(*part(2, 1))
        await trio.sleep(1.5)
        # This batch waits for its second attempt.
        scene.recorder.take(*part(2, 2))
        stop()
    assert scene.collector.names() == ["span 1"] * 2 + ["span 2"] * 2
    assert scene.metrics.spans_by_outcome == {"sent": 4}


async def test_the_end_waits_only_so_long_for_a_collector_that_hangs(
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
    log: CapturedLog,
) -> None:
    scene = Scene(AnsweringCollector(1000.0, 1000.0))
    async with scene.running() as stop:
        scene.recorder.take(*part(2, 1))
        await trio.sleep(1.5)
        scene.recorder.take(*part(3, 2))
        began = trio.current_time()
        stop()
    assert trio.current_time() - began == span_recorder._LAST_WORDS
    assert scene.metrics.spans_by_outcome == {"dropped": 5}
    assert len(log.events("spans_dropped_at_the_end")) == 1


async def test_a_collector_that_is_away_for_long_makes_nobody_take_the_recorder_for_stalled(
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
    log: CapturedLog,  # noqa: ARG001 - warnings
) -> None:
    collector = AnsweringCollector()
    recorder = SpanRecorder(collector, RememberedMetrics(), SetClock(datetime(2026, 1, 1, tzinfo=UTC)), spread=no_spread)
    turns = DueTurns()
    async with trio.open_nursery() as nursery:
        await nursery.start(Supervisor([recorder], turns, spread=no_spread).run)
        for second in range(1200):
            # Each request leaves spans, so there are always some that wait.
            collector.answers = [away("50")] * 9
            recorder.take(*part(1, second))
            await trio.sleep(1)
            assert turns.due > trio.current_time()
        nursery.cancel_scope.cancel()


class DueTurns(RememberedMetrics):
    due = 0.0

    def actor_turned(self, actor: str, *, since: float, within: float) -> None:
        super().actor_turned(actor, since=since, within=within)
        self.due = trio.current_time() + within
