"""The partition keeper makes months before they come, drops them after their time, and says so."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import trio
from trio.testing import MockClock

from actors.upkeep import PartitionKeeper
from core.domain.errors import Unavailable
from tests.actors.observed import RememberedMetrics
from tests.conftest import CapturedLog


@dataclass
class Months:
    """Months of a table, without a database."""

    table: str = "events"
    to_make: list[str] = field(default_factory=lambda: ["events_2027_03"])
    to_drop: list[str] = field(default_factory=lambda: ["events_2026_01"])
    away: int = 0
    obstacles: Sequence[str] = ()
    ups: list[float] = field(default_factory=list)

    async def make(self) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        if self.away:
            self.away -= 1
            raise Unavailable(retry_after=0.1)
        made, self.to_make = self.to_make, []
        return made

    async def drop(self, up: timedelta) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        self.ups.append(up.total_seconds())
        dropped, self.to_drop = self.to_drop, []
        return dropped

    async def in_the_way(self) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return self.obstacles

    async def ahead(self) -> timedelta:
        await trio.lowlevel.checkpoint()
        return timedelta(days=100)


async def kept(*months: Months, metrics: RememberedMetrics, rounds: float = 1) -> None:
    keeper = PartitionKeeper(months, metrics=metrics, spread=lambda: 0.0, interval=10)
    with trio.move_on_after(10 * rounds - 1):
        async with trio.open_nursery() as nursery:
            await nursery.start(keeper.run)


async def test_it_makes_and_drops_and_tells_how_far_the_months_reach(log: CapturedLog, autojump_clock: MockClock) -> None:  # noqa: ARG001 - waits in no time
    metrics = RememberedMetrics()
    await kept(Months(), metrics=metrics, rounds=3)
    told = [(line["event"], line["table"], line["partitions"]) for line in log.entries if line["event"].startswith("partitions_")]
    assert told == [("partitions_made", "events", ["events_2027_03"]), ("partitions_dropped", "events", ["events_2026_01"])]
    assert metrics.ahead == {"events": timedelta(days=100)}


async def test_it_waits_out_an_outage(autojump_clock: MockClock) -> None:  # noqa: ARG001 - waits in no time
    months, metrics = Months(away=3), RememberedMetrics()
    await kept(months, metrics=metrics)
    assert months.to_make == []
    assert metrics.ahead


@dataclass
class RefusedMonths(Months):
    """Months that PostgreSQL refuses to make."""

    table: str = "login_events"

    async def make(self) -> Sequence[str]:
        await super().make()
        raise ValueError("permission denied for schema partitions")


async def test_a_table_that_fails_stops_neither_the_process_nor_other_tables(log: CapturedLog, autojump_clock: MockClock) -> None:  # noqa: ARG001 - waits in no time
    log.allow("work_broken")
    refused, months, metrics = RefusedMonths(), Months(), RememberedMetrics()
    await kept(refused, months, metrics=metrics, rounds=3)
    assert (refused.to_drop, months.to_make, months.to_drop) == ([], [], [])
    assert metrics.ahead.keys() == {"login_events", "events"}
    assert metrics.broken["partition_keeper"] == 3
    assert {line["table"] for line in log.events("work_broken")} == {"login_events"}


async def test_it_says_how_long_the_process_is_up_also_after_a_failure(autojump_clock: MockClock) -> None:  # noqa: ARG001 - waits in no time
    months = Months()
    keeper = PartitionKeeper([months], metrics=RememberedMetrics(), spread=lambda: 0.0, interval=10)
    for _ in range(2):
        with trio.move_on_after(15):
            async with trio.open_nursery() as nursery:
                await nursery.start(keeper.run)
    assert months.ups == [0, 10, 15, 25]


async def test_it_tells_of_a_table_in_the_way(log: CapturedLog, autojump_clock: MockClock) -> None:  # noqa: ARG001 - waits in no time
    metrics = RememberedMetrics()
    await kept(Months(obstacles=["events_2027_04"]), Months(table="login_events"), metrics=metrics)
    assert metrics.obstructed == {"events": 1, "login_events": 0}
    (line,) = log.events("partitions_obstructed")
    assert (line["table"], line["partitions"]) == ("events", ["events_2027_04"])


async def test_a_turn_drops_one_month_of_all_tables(log: CapturedLog, autojump_clock: MockClock) -> None:  # noqa: ARG001 - waits in no time
    events, sign_ins = Months(), Months(table="login_events")
    await kept(sign_ins, events, metrics=RememberedMetrics())
    assert [line["table"] for line in log.events("partitions_dropped")] == ["login_events"]
    assert events.to_drop
    await kept(sign_ins, events, metrics=RememberedMetrics(), rounds=2)
    assert not events.to_drop
