"""Look-ups that travel together: which go together, and which a failure or a cancellation affects. Without a database and without a clock:
each test says when a look-up returns.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.shared_lookups import PATIENCE, SharedLookups

NOBODY: Final = "nobody"

# Time stands still, however slow the machine.
pytestmark = pytest.mark.usefixtures("mock_clock")


class Broken(Exception):
    pass


class Trip:
    """One look-up under way. It sees the world as it is when it returns; at the earliest that is when it began."""

    def __init__(self, keys: Sequence[str], began: int) -> None:
        self.keys = list(keys)
        self.began = began
        self.over = trio.Event()
        self.failure: Exception | None = None


class Database:
    """What is looked up is the number of the moment at which the look-up began; `nobody` is never found."""

    def __init__(self, **options: Any) -> None:
        self.lookups: SharedLookups[str, int] = SharedLookups(self._look_up, **options)
        self.trips: list[Trip] = []
        self.under_way: list[Trip] = []
        self.moment = 0

    async def _look_up(self, keys: Sequence[str]) -> Mapping[str, int]:
        trip = Trip(keys, self.tick())
        self.trips.append(trip)
        self.under_way.append(trip)
        try:
            await trip.over.wait()
        finally:
            self.under_way.remove(trip)
        if trip.failure is not None:
            raise trip.failure
        return {key: trip.began for key in keys if key != NOBODY}

    def tick(self) -> int:
        self.moment += 1
        return self.moment

    async def returns(self, failure: Exception | None = None, place: int = 0) -> None:
        trip = self.under_way[place]
        trip.failure = failure
        trip.over.set()
        await wait_all_tasks_blocked()

    async def all_return(self) -> None:
        while self.under_way:
            await self.returns()


class LookupAsker:
    """Somebody who asks: when, and what came of it."""

    def __init__(self, database: Database, key: str) -> None:
        self.database = database
        self.key = key
        self.asked = database.tick()
        self.outcome: Any = "waits"
        self.afterwards: Callable[[], None] = lambda: None
        self.trips = TripCounter()
        self._scope = trio.CancelScope()

    async def ask(self) -> None:
        round_trips.set(self.trips)
        with self._scope:
            try:
                self.outcome = await self.database.lookups.find(self.key)
            except Broken as error:
                self.outcome = error
            # Before any other task has run.
            self.afterwards()
        if self._scope.cancelled_caught:
            self.outcome = "left"

    def leave(self) -> None:
        self._scope.cancel()


class Crowd:
    def __init__(self, database: Database, nursery: trio.Nursery) -> None:
        self.database = database
        self._nursery = nursery
        self.people: list[LookupAsker] = []

    async def asks(self, *keys: str) -> list[LookupAsker]:
        arrived = []
        for key in keys:
            arrived.append(LookupAsker(self.database, key))
            self._nursery.start_soon(arrived[-1].ask)
            await wait_all_tasks_blocked()
        self.people += arrived
        return arrived


async def test_those_who_arrive_while_one_is_under_way_go_in_the_next() -> None:
    database = Database()
    async with trio.open_nursery() as nursery:
        crowd = Crowd(database, nursery)
        (ada,) = await crowd.asks("ada")
        later = await crowd.asks("bob", "cid", "bob", NOBODY)
        assert [trip.keys for trip in database.trips] == [["ada"]]
        await database.returns()
        assert ada.outcome == database.trips[0].began
        # Each key once, the one who waited longest first.
        assert [trip.keys for trip in database.trips] == [["ada"], ["bob", "cid", NOBODY]]
        assert all(person.outcome == "waits" for person in later)
        await database.returns()
        began = database.trips[1].began
        assert [person.outcome for person in later] == [began, began, began, None]
    assert len(database.trips) == 2


async def test_a_caller_who_asks_alone_waits_for_nobody() -> None:
    database = Database()
    async with trio.open_nursery() as nursery:
        crowd = Crowd(database, nursery)
        for _ in range(3):
            (ada,) = await crowd.asks("ada")
            await database.returns()
            assert ada.outcome == database.trips[-1].began
    assert [trip.keys for trip in database.trips] == [["ada"]] * 3


@pytest.mark.parametrize("gathers", [True, False])
async def test_those_who_come_at_the_same_moment_go_together_if_a_leader_gathers_them(gathers: bool) -> None:
    database = Database(gathers=gathers)
    people = [LookupAsker(database, key) for key in ("ada", "bob", "cid")]
    async with trio.open_nursery() as nursery:
        for person in people:
            nursery.start_soon(person.ask)
        await wait_all_tasks_blocked()
        assert [len(trip.keys) for trip in database.trips] == ([3] if gathers else [1])
        await database.all_return()
    assert all(person.outcome > person.asked for person in people)


async def test_a_leader_who_leaves_while_gathering_leaves_the_others_a_look_up() -> None:
    database = Database(gathers=True)
    people = [LookupAsker(database, key) for key in ("ada", "bob")]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(people[0].ask)
        people[0].leave()
        nursery.start_soon(people[1].ask)
        await wait_all_tasks_blocked()
        await database.all_return()
    assert people[0].outcome == "left"
    assert people[1].outcome > people[1].asked


async def test_nobody_joins_a_look_up_that_began_before_they_arrived_not_even_for_the_same_key() -> None:
    database = Database()
    async with trio.open_nursery() as nursery:
        crowd = Crowd(database, nursery)
        await crowd.asks("ada")
        (again,) = await crowd.asks("ada")
        await database.returns()
        assert again.outcome == "waits"
        await database.returns()
        assert again.outcome > again.asked


async def test_a_statement_takes_so_many_and_the_others_go_in_the_one_after() -> None:
    database = Database(most=3)
    async with trio.open_nursery() as nursery:
        crowd = Crowd(database, nursery)
        await crowd.asks("first", *"abcdefg")
        await database.all_return()
    assert [trip.keys for trip in database.trips] == [["first"], ["a", "b", "c"], ["d", "e", "f"], ["g"]]
    assert all(person.outcome > person.asked for person in crowd.people)


async def test_as_many_as_allowed_are_under_way_at_once() -> None:
    database = Database(abreast=2)
    async with trio.open_nursery() as nursery:
        crowd = Crowd(database, nursery)
        await crowd.asks(*"abcd")
        assert [trip.keys for trip in database.under_way] == [["a"], ["b"]]
        await database.returns(place=1)
        assert [trip.keys for trip in database.under_way] == [["a"], ["c", "d"]]
        await database.all_return()
        await crowd.asks(*"ef")
        assert [trip.keys for trip in database.under_way] == [["e"], ["f"]]
        await database.all_return()
    assert all(person.outcome > person.asked for person in crowd.people)


async def test_a_failure_is_that_of_those_who_travelled_and_of_nobody_else() -> None:
    database, failure = Database(), Broken()
    async with trio.open_nursery() as nursery:
        crowd = Crowd(database, nursery)
        (first,) = await crowd.asks("first")
        together = await crowd.asks("a", "b")
        await database.returns()
        (later,) = await crowd.asks("later")
        await database.returns(failure)
        assert [person.outcome for person in together] == [failure, failure]
        await database.returns()
        assert (first.outcome, later.outcome) == (database.trips[0].began, database.trips[2].began)


async def test_a_leader_who_is_cancelled_hands_the_lead_on() -> None:
    database = Database()
    async with trio.open_nursery() as nursery:
        crowd = Crowd(database, nursery)
        await crowd.asks("first")
        leader, *others = await crowd.asks("a", "b", "c")
        await database.returns()
        (later,) = await crowd.asks("later")
        leader.leave()
        await wait_all_tasks_blocked()
        # Looked up again, before and together with those that came later.
        assert [trip.keys for trip in database.under_way] == [["b", "c", "later"]]
        await database.returns()
        assert leader.outcome == "left"
        assert [person.outcome for person in (*others, later)] == [database.trips[-1].began] * 3
        # The place under way is free again.
        (after,) = await crowd.asks("after")
        await database.returns()
        assert after.outcome == database.trips[-1].began


async def test_a_leader_who_is_cancelled_in_the_moment_of_being_called_hands_the_lead_on() -> None:
    database = Database()
    async with trio.open_nursery() as nursery:
        crowd = Crowd(database, nursery)
        (first,) = await crowd.asks("first")
        leader, other = await crowd.asks("a", "b")
        first.afterwards = leader.leave
        await database.returns()
        await database.all_return()
        assert (leader.outcome, other.outcome) == ("left", database.trips[-1].began)


async def test_a_caller_who_leaves_the_queue_or_a_look_up_disturbs_nobody() -> None:
    database = Database()
    async with trio.open_nursery() as nursery:
        crowd = Crowd(database, nursery)
        await crowd.asks("first")
        a, b, c, d = await crowd.asks(*"abcd")
        a.leave()
        c.leave()
        await wait_all_tasks_blocked()
        await database.returns()
        assert database.trips[-1].keys == ["b", "d"]
        d.leave()
        await wait_all_tasks_blocked()
        await database.returns()
        assert [person.outcome for person in (a, b, c, d)] == ["left", database.trips[-1].began, "left", "left"]
        await crowd.asks("after")
        e, f = await crowd.asks("e", "f")
        for person in (e, f):
            person.leave()
        await wait_all_tasks_blocked()
        await database.returns()
        assert database.under_way == []


async def test_each_traveller_counts_the_round_trip_that_it_waited_for() -> None:
    database = Database()
    async with trio.open_nursery() as nursery:
        crowd = Crowd(database, nursery)
        await crowd.asks("first")
        leader, *others = await crowd.asks("a", "b")
        await database.returns()
        await database.returns()
        # The leader's wait is counted by the connection, and there is none here.
        assert (leader.trips.count, [person.trips.count for person in others]) == (0, [1])


async def test_a_later_caller_does_not_wait_for_a_look_up_that_does_not_return(mock_clock: MockClock) -> None:
    database = Database()
    async with trio.open_nursery() as nursery:
        crowd = Crowd(database, nursery)
        (stuck,) = await crowd.asks("stuck")
        waiting = await crowd.asks("a", "b")
        mock_clock.jump(PATIENCE * 1.5)
        (arrival,) = await crowd.asks("arrival")
        assert [trip.keys for trip in database.under_way] == [["stuck"], ["arrival", "a", "b"]]
        await database.returns(place=1)
        assert [person.outcome for person in (*waiting, arrival)] == [database.trips[-1].began] * 3
        assert stuck.outcome == "waits"
        await database.all_return()


async def _take(step: Any, database: Database, crowd: Crowd) -> None:
    match step:
        case "returns" | "fails":
            if database.under_way:
                await database.returns(Broken() if step == "fails" else None)
        case ("asks", key):
            await crowd.asks(key)
        case ("leaves", number):
            # Not waited for: what follows may come before it has left.
            if number < len(crowd.people):
                crowd.people[number].leave()
        case (_, key):
            (person,) = await crowd.asks(key)
            person.leave()


@settings(max_examples=150)
@given(
    steps=st.lists(
        st.one_of(
            st.sampled_from(["returns", "fails"]),
            st.tuples(st.just("asks"), st.sampled_from("abc")),
            st.tuples(st.just("leaves"), st.integers(0, 30)),
            st.tuples(st.just("asks and leaves"), st.sampled_from("abc")),
        ),
        max_size=40,
    ),
    abreast=st.integers(1, 3),
    most=st.integers(1, 4),
)
def test_after_any_steps_every_caller_gets_what_was_true_after_they_asked(steps: list[Any], abreast: int, most: int) -> None:
    async def live() -> None:
        database = Database(abreast=abreast, most=most)
        async with trio.open_nursery() as nursery:
            crowd = Crowd(database, nursery)
            for step in steps:
                await _take(step, database, crowd)
                assert len(database.under_way) <= abreast
            await wait_all_tasks_blocked()
            await database.all_return()
        for person in crowd.people:
            assert person.outcome != "waits"
            if isinstance(person.outcome, int):
                assert person.outcome > person.asked
        assert all(len(trip.keys) <= most for trip in database.trips)

    trio.run(live, clock=MockClock())


async def test_a_look_up_that_fails_frees_its_place() -> None:
    async def refuse(_keys: Sequence[str]) -> Mapping[str, int]:
        raise Broken

    lookups = SharedLookups(refuse)
    for _ in range(3):
        with pytest.raises(Broken):
            await lookups.find("a")
