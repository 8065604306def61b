"""The supervisor, on a clock that jumps."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
import trio

from actors.foundation import Outage
from actors.supervisor import ActorNotReady, ActorReturned, ActorsFailed, Restarts, SupervisedActor, Supervisor
from core.domain.errors import Overloaded, Unavailable
from core.domain.jobs import Retry
from tests.actors.observed import RememberedMetrics, no_spread
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True


class ScriptedActor:
    """An actor that does in each life the next step of the script; the last step repeats. It reports itself up before it begins."""

    def __init__(self, *script: Callable[[], Awaitable[None]], name: str = "scripted") -> None:
        self.name = name
        self.lives: list[float] = []
        self._script = script

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.lives.append(trio.current_time())
        task_status.started()
        await self._script[min(len(self.lives), len(self._script)) - 1]()


async def fail() -> None:
    raise ValueError("broken")


async def fail_within_a_nursery() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        nursery.start_soon(fail)


async def away() -> None:
    raise Unavailable(retry_after=2)


async def full_within_a_nursery() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(away)
        raise Overloaded(retry_after=1)


async def return_at_once() -> None:
    pass


async def fail_after_two_minutes() -> None:
    await trio.sleep(120)
    raise ValueError("broken")


def supervisor(*actors: SupervisedActor, metrics: RememberedMetrics | None = None, restarts: Restarts | None = None) -> Supervisor:
    return Supervisor(actors, metrics or RememberedMetrics(), spread=no_spread, restarts=restarts or Restarts())


async def test_every_actor_is_up_once_the_supervisor_has_started() -> None:
    metrics = RememberedMetrics()
    actors = [ScriptedActor(trio.sleep_forever, name=name) for name in ("one", "two")]
    async with trio.open_nursery() as nursery:
        supervised = supervisor(*actors, metrics=metrics)
        await nursery.start(supervised.run)
        assert metrics.up == {"one": True, "two": True}
        supervised.stop()
    assert metrics.up == {"one": False, "two": False}


async def test_an_actor_that_fails_is_restarted_and_the_others_are_left_alone(log: CapturedLog) -> None:
    metrics = RememberedMetrics()
    failing, steady = ScriptedActor(fail, trio.sleep_forever, name="failing"), ScriptedActor(trio.sleep_forever, name="steady")
    async with trio.open_nursery() as nursery:
        supervised = supervisor(failing, steady, metrics=metrics)
        await nursery.start(supervised.run)
        await trio.sleep(1)
        assert (len(failing.lives), len(steady.lives)) == (2, 1)
        assert metrics.up == {"failing": True, "steady": True}
        assert metrics.restarts == {"failing": 1}
        supervised.stop()
    [entry] = log.events("actor_failed")
    assert entry["level"] == "warning"
    assert (entry["actor"], entry["error"]) == ("failing", "ValueError")
    assert isinstance(entry["exc_info"], ValueError)
    assert entry["exc_info"].__traceback__ is not None


async def test_a_failure_inside_the_actors_own_nursery_is_one_like_any_other(log: CapturedLog) -> None:
    actor = ScriptedActor(fail_within_a_nursery, trio.sleep_forever)
    async with trio.open_nursery() as nursery:
        supervised = supervisor(actor)
        await nursery.start(supervised.run)
        await trio.sleep(1)
        assert len(actor.lives) == 2
        supervised.stop()
    assert log.events("actor_failed")[0]["error"] == "ValueError"


async def test_each_pause_is_longer_until_the_longest(log: CapturedLog) -> None:
    actor = ScriptedActor(fail)
    restarts = Restarts(pauses=Retry(first=timedelta(seconds=1), longest=timedelta(seconds=5)), most_failures=7)
    with pytest.raises(ActorsFailed):
        await supervisor(actor, restarts=restarts).run()
    pauses = [round(later - earlier, 3) for earlier, later in zip(actor.lives, actor.lives[1:], strict=False)]
    assert pauses == [1, 2, 4, 5, 5, 5]
    log.allow("actor_given_up")


async def test_the_pause_is_spread() -> None:
    actor = ScriptedActor(fail, trio.sleep_forever)
    async with trio.open_nursery() as nursery:
        supervised = Supervisor([actor], RememberedMetrics(), spread=lambda: 0.5)
        await nursery.start(supervised.run)
        await trio.sleep(2)
        supervised.stop()
    assert actor.lives[1] - actor.lives[0] == pytest.approx(0.55)


async def test_an_actor_that_keeps_failing_ends_the_process(log: CapturedLog) -> None:
    log.allow("actor_given_up")
    metrics = RememberedMetrics()
    failing, steady = ScriptedActor(fail, name="failing"), ScriptedActor(trio.sleep_forever, name="steady")
    began = trio.current_time()
    with pytest.raises(ActorsFailed, match="failing kept failing") as given_up:
        await supervisor(failing, steady, metrics=metrics).run()
    assert isinstance(given_up.value.__cause__, ValueError)
    assert len(failing.lives) == 10
    assert trio.current_time() - began < 150
    assert metrics.up == {"failing": False, "steady": False}
    [entry] = log.events("actor_given_up")
    assert (entry["level"], entry["failures"]) == ("critical", 10)


async def test_failures_that_lie_far_apart_are_forgiven(log: CapturedLog) -> None:
    actor = ScriptedActor(fail_after_two_minutes)
    with trio.move_on_after(24 * 3600):
        await supervisor(actor).run()
    assert len(actor.lives) > 500
    assert {entry["failures"] for entry in log.events("actor_failed")} == {1}


async def test_failures_outside_the_window_do_not_count(log: CapturedLog) -> None:
    """An actor that is never healthy but fails rarely: only the window keeps it running."""

    async def fail_after_half_a_minute() -> None:
        await trio.sleep(31)
        raise ValueError("broken")

    with trio.move_on_after(3600):
        await supervisor(ScriptedActor(fail_after_half_a_minute)).run()
    assert max(entry["failures"] for entry in log.events("actor_failed")) < 10


async def test_returning_is_a_failure(log: CapturedLog) -> None:
    actor = ScriptedActor(return_at_once, trio.sleep_forever)
    async with trio.open_nursery() as nursery:
        supervised = supervisor(actor)
        await nursery.start(supervised.run)
        await trio.sleep(1)
        supervised.stop()
    assert len(actor.lives) == 2
    assert isinstance(log.events("actor_failed")[0]["exc_info"], ActorReturned)


async def test_an_actor_that_is_not_ready_in_time_is_restarted(log: CapturedLog) -> None:
    class Slow:
        name = "slow"
        lives = 0

        async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            self.lives += 1
            await trio.sleep(0 if self.lives == 2 else 3600)
            task_status.started()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        supervised = supervisor(Slow())
        began = trio.current_time()
        await nursery.start(supervised.run)
        assert 10 < trio.current_time() - began < 20
        supervised.stop()
    assert isinstance(log.events("actor_failed")[0]["exc_info"], ActorNotReady)


async def test_a_start_that_never_succeeds_is_reported_to_its_caller(log: CapturedLog) -> None:
    log.allow("actor_given_up")

    class Broken:
        name = "broken"

        async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            raise ValueError(f"broken before {task_status!r}")

    with pytest.raises(ExceptionGroup) as group:
        async with trio.open_nursery() as nursery:
            await nursery.start(supervisor(Broken()).run)
    assert group.group_contains(ActorsFailed)


@pytest.mark.parametrize("outage", [away, full_within_a_nursery])
async def test_an_outage_costs_no_restart_budget(outage: Callable[[], Awaitable[None]], log: CapturedLog) -> None:
    until = 3600.0

    async def away_for_an_hour() -> None:
        if trio.current_time() < began + until:
            await outage()
        await trio.sleep_forever()

    began = trio.current_time()
    actor = ScriptedActor(away_for_an_hour)
    async with trio.open_nursery() as nursery:
        supervised = supervisor(actor)
        await nursery.start(supervised.run)
        await trio.sleep(until + 60)
        supervised.stop()
    assert 2900 < len(actor.lives) <= 3601
    assert not log.events("actor_failed")
    assert len(log.events("actor_waits")) == 1
    assert len(log.events("actor_goes_on")) == 1


async def test_an_outage_together_with_a_fault_is_a_fault(log: CapturedLog) -> None:
    async def both() -> None:
        raise ExceptionGroup("both", [Unavailable(retry_after=2), ValueError("broken")])

    async with trio.open_nursery() as nursery:
        supervised = supervisor(ScriptedActor(both, trio.sleep_forever))
        await nursery.start(supervised.run)
        await trio.sleep(1)
        supervised.stop()
    assert len(log.events("actor_failed")) == 1


async def test_cancellation_is_never_a_failure(log: CapturedLog) -> None:
    metrics = RememberedMetrics()

    async def with_a_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)

    async with trio.open_nursery() as nursery:
        actors = [ScriptedActor(with_a_nursery, name="nursery"), ScriptedActor(trio.sleep_forever, name="sleep")]
        await nursery.start(supervisor(*actors, metrics=metrics).run)
        nursery.cancel_scope.cancel()
    assert not log.entries
    assert not metrics.restarts


async def test_a_failure_on_the_way_out_is_told_but_neither_counted_nor_restarted(log: CapturedLog) -> None:
    """The group holds a failure and a cancellation: the failure is logged, the cancellation is raised."""

    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("broken")

    async def fail_beside_a_cancelled_task() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_when_cancelled)
            nursery.start_soon(trio.sleep_forever)

    metrics = RememberedMetrics()
    actors = [ScriptedActor(fail_beside_a_cancelled_task, name="group"), ScriptedActor(fail_when_cancelled, name="plain")]
    async with trio.open_nursery() as nursery:
        supervised = supervisor(*actors, metrics=metrics)
        await nursery.start(supervised.run)
        supervised.stop()
    assert {entry["actor"] for entry in log.events("actor_failed_while_stopping")} == {"group", "plain"}
    assert not log.events("actor_failed")
    assert not metrics.restarts
    assert [len(actor.lives) for actor in actors] == [1, 1]


async def test_a_fault_of_the_interpreter_is_not_an_actors_failure() -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(BaseExceptionGroup) as group:
        await supervisor(ScriptedActor(interrupted)).run()
    assert group.group_contains(KeyboardInterrupt)


async def test_stop_waits_for_the_unit_that_an_actor_shields() -> None:
    finished = []

    async def finish_what_is_in_hand() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
                finished.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        supervised = supervisor(ScriptedActor(finish_what_is_in_hand))
        await nursery.start(supervised.run)
        stopped = trio.current_time()
        supervised.stop()
    assert finished == [stopped + 2]


async def test_stopping_ends_the_pause_before_a_restart() -> None:
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        supervised = supervisor(ScriptedActor(fail), restarts=Restarts(pauses=Retry(timedelta(hours=1), timedelta(hours=1))))
        await nursery.start(supervised.run)
        await trio.sleep(1)
        supervised.stop()
    assert trio.current_time() < began + 10


async def test_a_supervisor_without_actors_runs_until_it_is_stopped() -> None:
    async with trio.open_nursery() as nursery:
        supervised = supervisor()
        await nursery.start(supervised.run)
        await trio.sleep(100)
        supervised.stop()


def test_two_actors_of_one_name_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="same name"):
        supervisor(ScriptedActor(fail), ScriptedActor(fail))


async def test_an_actor_that_waits_out_an_outage_is_not_up(log: CapturedLog) -> None:
    metrics = RememberedMetrics()
    away = True

    async def ask() -> None:
        await trio.lowlevel.checkpoint()
        if away:
            raise Unavailable(retry_after=1)

    class Waiting:
        name = "waiting"

        async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            task_status.started()
            await trio.sleep(5)
            await Outage(self.name, no_spread).wait_out(ask)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor(Waiting(), metrics=metrics).run)
        await trio.sleep(1)
        assert metrics.up == {"waiting": True}
        await trio.sleep(9)
        assert metrics.up == {"waiting": False}
        away = False
        await trio.sleep(5)
        assert metrics.up == {"waiting": True}
        nursery.cancel_scope.cancel()
    assert len(log.events("actor_goes_on")) == 1
