"""The janitor: small batches, pauses, rounds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from actors.upkeep import Janitor
from core.domain.errors import Unavailable
from tests.actors.observed import RememberedMetrics, no_doubt, no_spread
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True


class Dust:
    """Implements `ports.database.Housekeeping` over a number."""

    name = "Dust"

    def __init__(self, rows: int, *, is_prompt: bool = False) -> None:
        self.name = f"{self.name} {is_prompt}"
        self.rows = rows
        self.is_prompt = is_prompt
        self.deleted_at: list[float] = []
        self.away_until = 0.0

    async def delete_expired(self, limit: int) -> int:
        await trio.lowlevel.checkpoint()
        if trio.current_time() < self.away_until:
            raise Unavailable(retry_after=2)
        deleted = min(limit, self.rows)
        self.rows -= deleted
        self.deleted_at.append(trio.current_time())
        return deleted


@asynccontextmanager
async def at_work(*dust: Dust, spread: float = 0.0, metrics: RememberedMetrics | None = None) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(Janitor(dust, doubt=no_doubt, metrics=metrics or RememberedMetrics(), spread=lambda: spread, batch=100).run)
        yield
        nursery.cancel_scope.cancel()


async def test_everything_expired_goes_in_batches_with_pauses(log: CapturedLog) -> None:
    sessions, buckets = Dust(250), Dust(0)
    async with at_work(sessions, buckets):
        await trio.sleep(1)
        assert sessions.rows == 0
    assert len(sessions.deleted_at) == 3
    assert sessions.deleted_at[1] - sessions.deleted_at[0] > 0.01
    assert len(buckets.deleted_at) == 1
    assert [entry["deleted"] for entry in log.events("janitor_swept")] == [250]


async def test_the_rounds_are_a_minute_apart_and_what_finds_nothing_rests_for_some_of_them() -> None:
    prompt, dust = Dust(0, is_prompt=True), Dust(0)
    began = trio.current_time()
    async with at_work(prompt, dust):
        await trio.sleep(3590)
        assert len(prompt.deleted_at) == 60
        assert [round((at - began) / 60) for at in dust.deleted_at] == [0, 2, 6, 14, 24, 34, 44, 54]
        dust.rows, before = 150, len(dust.deleted_at)
        await trio.sleep(600)
    # What found something looks again in the next round.
    assert dust.rows == 0
    assert [round((at - began) / 60) for at in dust.deleted_at[before:]] == [64, 64, 65, 67]


async def test_processes_that_start_together_do_not_sweep_together() -> None:
    early, late = Dust(0), Dust(0)
    began = trio.current_time()
    async with at_work(early, spread=0.1), at_work(late, spread=0.9):
        await trio.sleep(59)
    assert (round(early.deleted_at[0] - began), round(late.deleted_at[0] - began)) == (6, 54)


async def test_an_outage_is_waited_out(log: CapturedLog) -> None:
    dust = Dust(50)
    dust.away_until = trio.current_time() + 300
    async with at_work(dust):
        await trio.sleep(320)
        assert dust.rows == 0
    assert len(log.events("actor_waits")) == 1


class Stuck(Dust):
    """A sweep that PostgreSQL refuses."""

    name = "Stuck"

    async def delete_expired(self, limit: int) -> int:
        await super().delete_expired(limit)
        raise ValueError("permission denied")


async def test_a_sweep_that_fails_stops_no_other_sweep(log: CapturedLog) -> None:
    log.allow("work_broken")
    stuck, dust, metrics = Stuck(0), Dust(50), RememberedMetrics()
    async with at_work(stuck, dust, metrics=metrics):
        await trio.sleep(90)
    assert dust.rows == 0
    assert (len(stuck.deleted_at), metrics.broken["janitor"]) == (2, 2)
    assert {line["sweep"] for line in log.events("work_broken")} == {stuck.name}


async def test_nothing_is_swept_while_the_clock_is_doubted_and_all_of_it_afterwards(log: CapturedLog) -> None:
    doubted: str | None = "unseen"

    async def doubt() -> str | None:
        await trio.lowlevel.checkpoint()
        return doubted

    dust, metrics = Dust(250), RememberedMetrics()
    async with trio.open_nursery() as nursery:
        await nursery.start(Janitor([dust], doubt=doubt, metrics=metrics, spread=no_spread, batch=100).run)
        await trio.sleep(130)
        assert dust.rows == 250
        assert dust.deleted_at == []
        assert metrics.clock_doubts == ["unseen"] * 3
        assert [line["why"] for line in log.events("clock_doubted")] == ["unseen"]
        doubted = None
        await trio.sleep(60)
        nursery.cancel_scope.cancel()
    assert dust.rows == 0
    assert metrics.clock_doubts[-1] is None
    assert len(log.events("clock_believed")) == 1


async def test_a_question_about_the_clock_that_fails_is_no_reason_to_believe_it(log: CapturedLog) -> None:
    log.allow("work_broken")

    async def doubt() -> str | None:
        await trio.lowlevel.checkpoint()
        raise ValueError("no such function")

    dust, metrics = Dust(250), RememberedMetrics()
    async with trio.open_nursery() as nursery:
        await nursery.start(Janitor([dust], doubt=doubt, metrics=metrics, spread=no_spread, batch=100).run)
        await trio.sleep(70)
        nursery.cancel_scope.cancel()
    assert dust.rows == 250
    assert metrics.broken["janitor"] == 2
