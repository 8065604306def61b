"""Each turn of an actor says when the next one ends at the latest, and the part that is due first counts."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from actors.foundation import LONGEST_WORK, Outage, turned
from actors.supervisor import Restarts, Supervisor
from core.domain.errors import Unavailable
from tests.actors.observed import RememberedMetrics, no_spread
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True


class Beats(RememberedMetrics):
    """Remembers the time at which each actor's last turn ended, and the time by which the next ends."""

    def __init__(self) -> None:
        super().__init__()
        self.last: dict[str, float] = {}
        self.due: dict[str, float] = {}

    def actor_turned(self, actor: str, *, since: float, within: float) -> None:
        self.last[actor] = trio.current_time() - since
        self.due[actor] = trio.current_time() + within


class Beating:
    def __init__(self, life: Callable[[], Awaitable[None]], name: str = "beating") -> None:
        self.name = name
        self._life = life

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await self._life()


async def watched(*actors: Beating, seconds: float) -> tuple[Beats, float]:
    """Runs the actors for so long. Returns what they told, and when they started."""
    beats = Beats()
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(Supervisor(actors, beats, spread=no_spread).run)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    return beats, began


async def test_an_actor_that_turns_is_never_overdue_and_one_that_hangs_becomes_so() -> None:
    lock = trio.Lock()
    await lock.acquire()

    async def turn() -> None:
        while True:
            turned(pause=60)
            await trio.sleep(60)

    async def hang() -> None:
        turned(pause=60)
        await lock.acquire()

    beats, began = await watched(Beating(turn, "turning"), Beating(hang, "hanging"), seconds=3600)
    assert beats.due["turning"] > began + 3600
    assert beats.due["hanging"] == pytest.approx(began + 60 + LONGEST_WORK)
    assert beats.up == {"turning": False, "hanging": False}


async def test_an_actor_that_never_tells_of_a_turn_becomes_overdue() -> None:
    beats, began = await watched(Beating(trio.sleep_forever), seconds=3600)
    assert beats.due["beating"] < began + 600


async def test_the_part_that_is_due_first_counts() -> None:
    async def turn(part: str) -> None:
        while True:
            turned(pause=60, part=part)
            await trio.sleep(60)

    async def life() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(turn, "")
            turned(pause=90, part="stuck")
            nursery.start_soon(trio.sleep_forever)

    beats, began = await watched(Beating(life), seconds=3600)
    assert beats.due["beating"] == pytest.approx(began + 90 + LONGEST_WORK)
    assert beats.last["beating"] == pytest.approx(began)


async def test_a_new_life_of_an_actor_has_no_parts_of_the_life_before(log: CapturedLog) -> None:
    lives = 0

    async def life() -> None:
        nonlocal lives
        lives += 1
        if lives == 1:
            turned(pause=1, part="first")
            raise ValueError("broken")
        while True:
            turned(pause=60)
            await trio.sleep(60)

    beats, began = await watched(Beating(life), seconds=3600)
    assert beats.due["beating"] > began + 3600
    assert log.events("actor_failed")


async def test_nobody_listens_outside_the_supervisor() -> None:
    await trio.lowlevel.checkpoint()
    turned(pause=1)


async def test_an_outage_before_an_actor_is_ready_is_no_failure_however_long(log: CapturedLog) -> None:
    until = trio.current_time() + 3600

    async def ask() -> None:
        await trio.lowlevel.checkpoint()
        if trio.current_time() < until:
            raise Unavailable(retry_after=1)

    class WaitsFirst:
        name = "waits_first"
        lives = 0

        async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            self.lives += 1
            await Outage(self.name, no_spread).wait_out(ask)
            task_status.started()
            await trio.sleep_forever()

    actor, metrics = WaitsFirst(), RememberedMetrics()
    async with trio.open_nursery() as nursery:
        supervisor = Supervisor([actor], metrics, spread=no_spread, restarts=Restarts())
        await nursery.start(supervisor.run)
        assert trio.current_time() >= until
        assert metrics.up == {"waits_first": True}
        supervisor.stop()
    assert actor.lives == 1
    assert not log.events("actor_failed")


async def test_an_actor_that_an_outage_ends_before_it_is_ready_is_started_again_however_often(log: CapturedLog) -> None:
    until = trio.current_time() + 3600

    class EndsFirst:
        name = "ends_first"

        async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            await trio.sleep(1)
            if trio.current_time() < until:
                raise Unavailable(retry_after=1)
            task_status.started()
            await trio.sleep_forever()

    metrics = RememberedMetrics()
    async with trio.open_nursery() as nursery:
        supervisor = Supervisor([EndsFirst()], metrics, spread=no_spread)
        await nursery.start(supervisor.run)
        assert metrics.up == {"ends_first": True}
        supervisor.stop()
    assert metrics.restarts["ends_first"] > 1000
    assert not log.events("actor_failed")
