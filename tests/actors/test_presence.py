"""Presence: marks are gathered, written once a second, kept over outages, flushed at the end."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

import trio

from actors.recorders import PresenceWriter
from core.domain.errors import Overloaded, Unavailable
from core.domain.identifiers import SessionId
from tests.actors.observed import RememberedMetrics, no_spread
from tests.conftest import CapturedLog
from tests.steps import watched_steps

ON_A_JUMPING_CLOCK = True

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class KeptMarks:
    """Implements `ports.system.PresenceStore`, for hours of the actor's work."""

    def __init__(self) -> None:
        self.batches: list[Mapping[SessionId, datetime]] = []
        self.attempts = 0
        self.away_until = 0.0
        self.hangs = False

    async def mark_seen(self, times: Mapping[SessionId, datetime]) -> None:
        self.attempts += 1
        await trio.sleep(3600 if self.hangs else 0)
        if trio.current_time() < self.away_until:
            raise Unavailable(retry_after=2) if self.attempts % 2 else Overloaded(retry_after=1)
        self.batches.append(dict(times))


def session(number: int) -> SessionId:
    return SessionId(UUID(int=number))


@asynccontextmanager
async def at_work(presence: PresenceWriter[SessionId]) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(presence.run)
        yield
        nursery.cancel_scope.cancel()


async def test_the_marks_of_a_second_are_written_at_once_the_newest_of_each_session() -> None:
    store = KeptMarks()
    presence = PresenceWriter(store, RememberedMetrics(), spread=no_spread)
    async with at_work(presence):
        for second in (1, 3, 2):
            presence.seen(session(1), NOON + timedelta(seconds=second))
        presence.seen(session(2), NOON)
        await trio.sleep(1.5)
        assert store.batches == [{session(1): NOON + timedelta(seconds=3), session(2): NOON}]


async def test_steady_traffic_is_written_once_a_second() -> None:
    store = KeptMarks()
    presence = PresenceWriter(store, RememberedMetrics(), spread=no_spread)
    async with at_work(presence):
        for number in range(1000):
            presence.seen(session(number % 7), NOON + timedelta(seconds=number))
            await trio.sleep(0.01)
    assert 9 <= len(store.batches) <= 11


async def test_nothing_is_written_while_nobody_comes() -> None:
    store = KeptMarks()
    async with at_work(PresenceWriter(store, RememberedMetrics(), spread=no_spread)):
        await trio.sleep(3600)
    assert store.attempts == 0


async def test_however_many_marks_are_gathered_others_have_their_turns() -> None:
    longest = []
    for _ in range(3):
        store = KeptMarks()
        presence = PresenceWriter(store, RememberedMetrics(), spread=no_spread)
        marks = {session(number): NOON for number in range(20_000)}
        for one, at in marks.items():
            presence.seen(one, at)
        await trio.lowlevel.checkpoint()
        with watched_steps() as steps:
            async with at_work(presence):
                await trio.sleep(1.5)
        assert store.batches == [marks]
        longest.append(max(steps))
    assert min(longest) < 0.005


async def test_a_full_channel_drops_the_mark_and_counts_it() -> None:
    metrics = RememberedMetrics()
    presence = PresenceWriter(KeptMarks(), metrics, spread=no_spread, most=10)
    for number in range(15):
        presence.seen(session(number), NOON)
    assert metrics.dropped == 5


async def test_an_outage_keeps_the_newest_marks_of_so_many_sessions(log: CapturedLog) -> None:
    store, metrics = KeptMarks(), RememberedMetrics()
    presence = PresenceWriter(store, metrics, spread=no_spread, most=10)
    async with at_work(presence):
        store.away_until = trio.current_time() + 600
        for second in range(0, 590, 2):
            # Five sessions that keep coming, and a new one that finds no room.
            for number in [0, 1, 2, 3, 4, 5 + second]:
                presence.seen(session(number), NOON + timedelta(seconds=second))
            await trio.sleep(2)
        await trio.sleep(20)
    [batch] = store.batches
    assert batch == {
        **{session(number): NOON + timedelta(seconds=588) for number in range(5)},
        **{session(5 + second): NOON + timedelta(seconds=second) for second in range(0, 10, 2)},
    }
    assert metrics.dropped == 290
    assert len(log.events("actor_waits")) == 1
    assert len(log.events("actor_goes_on")) == 1


async def test_what_was_gathered_last_is_written_at_shutdown() -> None:
    store = KeptMarks()
    presence = PresenceWriter(store, RememberedMetrics(), spread=no_spread)
    async with at_work(presence):
        await trio.sleep(5)
        presence.seen(session(1), NOON)
    assert store.batches == [{session(1): NOON}]


async def test_shutdown_does_not_wait_for_a_database_that_does_not_answer(log: CapturedLog) -> None:
    store = KeptMarks()
    store.hangs = True
    presence = PresenceWriter(store, RememberedMetrics(), spread=no_spread)
    async with at_work(presence):
        presence.seen(session(1), NOON)
        await trio.sleep(1.5)
        stopped = trio.current_time()
    assert trio.current_time() - stopped < 1.1
    [entry] = log.events("presence_not_written")
    assert (entry["actor"], entry["marks"]) == ("presence", 1)


async def test_marks_outlive_a_restart_of_the_actor() -> None:
    store = KeptMarks()
    presence = PresenceWriter(store, RememberedMetrics(), spread=no_spread)
    presence.seen(session(1), NOON)
    store.away_until = trio.current_time() + 100
    async with at_work(presence):
        await trio.sleep(2)
    store.away_until = 0
    async with at_work(presence):
        await trio.sleep(2)
    assert store.batches == [{session(1): NOON}]
