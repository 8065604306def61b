"""Every actor that the program starts has a heartbeat, idle or not, and an actor that hangs at a lock of the database loses it."""

from collections.abc import Awaitable, Callable

import psycopg
import pytest
import trio
from trio.testing import MockClock

from actors.supervisor import Supervisor
from entrypoints.bootstrap import Postern
from tests.actors.observed import RememberedMetrics, no_spread
from tests.patience import PATIENCE

# Longer than any pause of an actor.
HOURS = 2 * 3600.0
A_MINUTE = 60.0
LOOK = 0.05


class Turns(RememberedMetrics):
    """Remembers by when the next turn of each actor ends."""

    def __init__(self) -> None:
        super().__init__()
        self.due: dict[str, float] = {}

    def actor_turned(self, actor: str, *, since: float, within: float) -> None:
        super().actor_turned(actor, since=since, within=within)
        self.due[actor] = trio.current_time() + within

    def overdue(self, at: float) -> set[str]:
        return {actor for actor, due in self.due.items() if due < at}


def on_a_clock_that_can_jump(test: Callable[[], Awaitable[None]], **others: object) -> None:
    trio.run(test, clock=MockClock(rate=1), instruments=others["instruments"])  # type: ignore[arg-type]  # pytest-trio's


def passed(seconds: float) -> float:
    """Lets so many seconds pass at once. Returns the time then."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, MockClock)
    clock.jump(seconds)
    return trio.current_time()


async def until_only(overdue: set[str], turns: Turns, at: float) -> None:
    """Waits until no other actors than these were overdue then. Minutes pass meanwhile, since an actor amidst a turn pauses first."""
    waited, look = 0.0, LOOK
    while turns.overdue(at) != overdue:
        if waited > PATIENCE:
            pytest.fail(f"These were overdue: {turns.overdue(at)}")
        await trio.sleep(look)
        passed(A_MINUTE)
        # A minute that passes at once is an outage to whoever asks the database meanwhile. A busy machine gets ever more time between two.
        waited, look = waited + look, min(look * 1.3, 5.0)


@pytest.mark.usefixtures("log")
@pytest.mark.trio(run=on_a_clock_that_can_jump)
async def test_every_actor_that_the_program_starts_goes_on_to_tell_of_its_turns(postern: Postern) -> None:
    turns = Turns()
    async with trio.open_nursery() as nursery:
        await nursery.start(Supervisor(postern.actors, turns, spread=no_spread).run)
        assert turns.due.keys() == {actor.name for actor in postern.actors}
        for _ in range(3):
            at = passed(HOURS)
            assert turns.overdue(at) == turns.due.keys()
            await until_only(set(), turns, at)
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("log")
@pytest.mark.trio(run=on_a_clock_that_can_jump)
async def test_an_actor_that_hangs_at_a_lock_is_overdue_until_the_lock_is_gone(postern: Postern, database_url: str) -> None:
    turns = Turns()
    actors = [actor for actor in postern.actors if actor.name in ("audit_linker", "domain_checker")]
    waits = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with psycopg.connect(database_url) as another, psycopg.connect(database_url, autocommit=True) as observer:
        async with trio.open_nursery() as nursery:
            await nursery.start(Supervisor(actors, turns, spread=no_spread).run)
            # In a thread: the linker may hold a lock itself at this moment, and needs this one to go on.
            await trio.to_thread.run_sync(another.execute, "lock table audit_pending")
            with trio.fail_after(PATIENCE):
                while not observer.execute(waits).fetchall():
                    await trio.sleep(LOOK)
            at = passed(HOURS)
            await until_only({"audit_linker"}, turns, at)
            another.rollback()
            await until_only(set(), turns, at)
            nursery.cancel_scope.cancel()
