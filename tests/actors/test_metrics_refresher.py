"""The metrics refresher: its queries, their pace, and its work while the database is away."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import trio

from actors.watchers import MetricsRefresher
from core.domain.errors import Unavailable
from ports.database import RoundTrips
from ports.metrics import DatabaseHost, PoolState, Population
from ports.platform import DatabaseGauges, DirectoriesInNeed
from ports.record import Backlog
from ports.services.billing import WaitingBillingEvents
from tests.actors.kept_queue import KeptQueue, TrioClock
from tests.actors.observed import RememberedMetrics, no_spread
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True
PROVED_AT = datetime(2026, 1, 31, tzinfo=UTC)


class CountedDatabase:
    """Implements the called methods of `ports.database.Database`."""

    def __init__(self) -> None:
        self.away_until = 0.0
        self.ahead = timedelta(milliseconds=3)

    def pool_state(self) -> PoolState:
        raise AssertionError("not asked")

    async def give_up_hung(self) -> int:
        raise AssertionError("not asked")

    async def ping(self) -> bool:
        await trio.lowlevel.checkpoint()
        return trio.current_time() >= self.away_until

    @property
    def clock_ahead(self) -> timedelta:
        return self.ahead

    async def look_at_hosts(self) -> Sequence[DatabaseHost]:
        raise AssertionError("not asked")

    @property
    def hosts_without_writer(self) -> Sequence[DatabaseHost]:
        raise AssertionError("not asked")

    async def write_failure(self) -> str | None:
        raise AssertionError("not asked")

    def count_round_trips(self) -> RoundTrips:
        raise AssertionError("not asked")

    def refused(self, error: Exception) -> bool:
        raise AssertionError("not asked") from error

    async def doubt_of_clock(self) -> str | None:
        raise AssertionError("not asked")


KEYS_SINCE = {"access": PROVED_AT, "id": PROVED_AT}


def key_ages(since: Mapping[str, datetime]) -> Mapping[str, timedelta]:
    assert since == KEYS_SINCE
    return {"access": timedelta(days=1), "id": timedelta(days=2)}


class KeptGauges:
    """Implements `ports.platform.GaugeReader`."""

    def __init__(self, database: CountedDatabase, queue: KeptQueue) -> None:
        self._database = database
        self._queue = queue

    async def read(self) -> DatabaseGauges:
        if trio.current_time() < self._database.away_until:
            raise Unavailable(retry_after=2)
        return DatabaseGauges(
            population=Population(3, 2, 1),
            queue=await self._queue.state(),
            audit=Backlog(7, TrioClock().now() - timedelta(minutes=3)),
            billing=WaitingBillingEvents(2, self._queue.clock.now() - timedelta(seconds=30)),
            backup_checked=PROVED_AT,
            directories=DirectoriesInNeed(1, 2),
            keys_since=KEYS_SINCE,
        )


@asynccontextmanager
async def at_work(metrics: RememberedMetrics, database: CountedDatabase, queue: KeptQueue) -> AsyncIterator[None]:
    refresher = MetricsRefresher(
        metrics,
        database=database,
        gauges=KeptGauges(database, queue),
        key_ages=key_ages,
        clock=queue.clock,
        spread=no_spread,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(refresher.run)
        yield
        nursery.cancel_scope.cancel()


async def test_the_first_refresh_comes_at_once_and_sets_every_gauge() -> None:
    metrics, queue = RememberedMetrics(), KeptQueue()
    queue.add(due_in=-90)
    async with at_work(metrics, CountedDatabase(), queue):
        await trio.sleep(0.1)
    assert metrics.populations == [Population(3, 2, 1)]
    [(states, waits)] = metrics.queues
    assert (states[0].kind, states[0].waiting) == ("work", 1)
    assert waits == {"work": timedelta(seconds=90)}
    assert metrics.audit_backlogs == [(7, timedelta(minutes=3))]
    assert metrics.backups_checked == [PROVED_AT]
    assert metrics.directories == [(1, 2)]
    assert metrics.key_ages == {"access": timedelta(days=1), "id": timedelta(days=2)}


async def test_it_comes_again_every_half_minute() -> None:
    metrics = RememberedMetrics()
    async with at_work(metrics, CountedDatabase(), KeptQueue()):
        await trio.sleep(299)
    assert len(metrics.populations) == 10


async def test_an_empty_queue_has_no_oldest_job() -> None:
    metrics = RememberedMetrics()
    async with at_work(metrics, CountedDatabase(), KeptQueue()):
        await trio.sleep(1)
    assert metrics.queues == [([], {})]


async def test_a_job_of_the_future_has_no_age() -> None:
    metrics, queue = RememberedMetrics(), KeptQueue()
    queue.add(due_in=1000)
    async with at_work(metrics, CountedDatabase(), queue):
        await trio.sleep(1)
    assert metrics.queues[0][1] == {"work": timedelta(0)}


async def test_it_waits_while_the_database_is_away(log: CapturedLog) -> None:
    metrics, database = RememberedMetrics(), CountedDatabase()
    database.away_until = trio.current_time() + 100
    async with at_work(metrics, database, KeptQueue()):
        await trio.sleep(90)
        assert not metrics.populations
        await trio.sleep(30)
        assert metrics.populations
    assert len(log.events("actor_waits")) == 1
    assert len(log.events("actor_goes_on")) == 1


@pytest.mark.parametrize("ahead", [timedelta(days=60), timedelta(seconds=-31)])
async def test_clocks_that_differ_are_measured_and_told_until_they_agree(log: CapturedLog, ahead: timedelta) -> None:
    metrics, database = RememberedMetrics(), CountedDatabase()
    database.ahead = ahead
    async with at_work(metrics, database, KeptQueue()):
        await trio.sleep(1)
        assert metrics.clocks_ahead == [ahead]
        assert [line["ahead_of_database"] for line in log.events("clocks_differ")] == [ahead.total_seconds()]
        database.ahead = timedelta(seconds=30)
        await trio.sleep(60)
        assert metrics.clocks_ahead[1:] == [timedelta(seconds=30)] * 2
    assert len(log.events("clocks_differ")) == 1
    assert len(log.events("clocks_agree")) == 1
