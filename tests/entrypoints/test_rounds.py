"""Rounds of the event loop stay short: of many requests that come at once, only a few begin in each round, and probes do not wait."""

from collections.abc import Callable, Sequence
from itertools import count

import pytest
import trio
import trio.testing

from entrypoints import event_loop_rounds as rounds_of_the_loop
from entrypoints.event_loop_rounds import CROWDED, LONGEST, MOST, Rounds, _as_many, fair_turn
from entrypoints.http.server.heads import Scope
from entrypoints.http.server.limits import ServerSettings
from tests.http.running_server import GET, Receive, Send, answer, application, greet, running, until

PROBE = b"GET /health HTTP/1.1\r\nHost: postern.test\r\n\r\n"
CROWD = 10


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Every round has lasted long enough; what is returned ends that."""
    monkeypatch.setattr(rounds_of_the_loop, "LONGEST", -1.0)
    return lambda: monkeypatch.setattr(rounds_of_the_loop, "LONGEST", 3600.0)


async def in_each_round(lasting: float, monkeypatch: pytest.MonkeyPatch) -> Sequence[Sequence[int]]:
    """The waiting callers that go on in each round, if each round seems to last this many seconds."""
    clock = count(0.0, lasting)
    monkeypatch.setattr(rounds_of_the_loop, "perf_counter", lambda: next(clock))
    rounds, in_each = Rounds(), dict[float, list[int]]()

    async def one(number: int) -> None:
        await rounds.next_one()
        in_each.setdefault(rounds._began, []).append(number)

    async with trio.open_nursery() as nursery:
        for number in range(CROWD):
            nursery.start_soon(one, number)
            await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(rounds.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    # Those of one round go on in any order, as Trio wishes.
    return [sorted(some) for some in in_each.values()]


async def test_a_line_goes_on_a_few_at_a_time_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    in_each = await in_each_round(LONGEST / 10, monkeypatch)
    assert [number for some in in_each for number in some] == list(range(CROWD))
    assert [len(some) for some in in_each] == [1, 2, 3, 4]
    assert MOST == 4


async def test_after_a_long_round_fewer_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [len(some) for some in await in_each_round(LONGEST * 2, monkeypatch)] == [1] * CROWD
    assert [_as_many(before, LONGEST * 2) for before in (1, 2, 3, 4)] == [1, 1, 1, 2]
    assert [_as_many(before, LONGEST * 0.7) for before in (1, 2, 3, 4)] == [1, 2, 3, 4]
    assert [_as_many(before, LONGEST * 0.3) for before in (1, 2, 3, 4)] == [2, 3, 4, 4]


@pytest.mark.usefixtures("full")
async def test_a_fair_turn_is_a_later_one_in_a_long_round() -> None:
    with trio.testing.assert_no_checkpoints():
        await fair_turn()  # nobody serves here
    rounds = Rounds()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rounds.run)
        await trio.testing.wait_all_tasks_blocked()
        with trio.testing.assert_checkpoints():
            await fair_turn()
        nursery.cancel_scope.cancel()


async def test_a_fair_turn_is_now_in_a_short_round(full: Callable[[], None]) -> None:
    full()
    rounds = Rounds()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rounds.run)
        await trio.testing.wait_all_tasks_blocked()
        with trio.testing.assert_no_checkpoints():
            await fair_turn()
        nursery.cancel_scope.cancel()


async def test_nobody_waits_in_a_short_round_except_behind_others(full: Callable[[], None]) -> None:
    rounds = Rounds()
    rounds._runs = True  # but nobody is called
    assert rounds.is_full()
    full()
    assert not rounds.is_full()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rounds.next_one)
        await trio.testing.wait_all_tasks_blocked()
        assert rounds.is_full()
        nursery.cancel_scope.cancel()
    assert not rounds.is_full()


@pytest.mark.usefixtures("full")
async def test_nobody_waits_where_nobody_calls() -> None:
    """Before a server has begun, and after it has ended."""
    rounds = Rounds()
    assert not rounds.is_full()
    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(rounds.next_one)
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as server:
            server.start_soon(rounds.run)
            # The server ends while most callers wait.
            server.cancel_scope.cancel()
    assert not rounds.is_full()
    with trio.testing.assert_no_checkpoints():
        await fair_turn()


async def test_who_has_come_before_waits_only_in_a_very_long_round(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(rounds_of_the_loop, "perf_counter", lambda: now)
    rounds = Rounds()
    now = CROWDED * 1.01
    assert not rounds.is_crowded()  # nobody is called
    rounds._runs = True
    assert rounds.is_crowded()
    now = CROWDED * 0.99
    assert rounds.is_full()
    assert not rounds.is_crowded()


async def test_newcomers_and_ends_wait_for_a_turn_and_further_requests_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    is_full, in_line = False, list[int]()
    leave = trio.Event()

    async def wait(_rounds: Rounds) -> None:
        in_line.append(1)
        await leave.wait()

    monkeypatch.setattr(Rounds, "is_full", lambda _: is_full)
    monkeypatch.setattr(Rounds, "next_one", wait)
    async with running(application(greet)) as server:
        known, newcomer = await server.connect(), await server.connect()
        await known.send(GET)
        assert (await known.answer()).status == 200
        is_full = True
        await known.send(GET)
        assert (await known.answer()).status == 200
        assert not in_line
        await newcomer.send(GET)
        await until(lambda: len(in_line) == 1)
        await known.stream.aclose()
        await until(lambda: len(in_line) == 2)
        leave.set()
        assert (await newcomer.answer()).status == 200


async def test_each_round_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(rounds_of_the_loop, "perf_counter", lambda: now)
    rounds = Rounds()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rounds.run)
        await trio.testing.wait_all_tasks_blocked()
        now = 0.5
        assert rounds.is_full()
        await trio.lowlevel.checkpoint()
        assert not rounds.is_full()
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("full")
async def test_all_of_a_crowd_are_answered() -> None:
    async with running(application(greet)) as server, trio.open_nursery() as nursery:

        async def ask() -> None:
            assert (await server.ask()).body == b"ok"

        for _ in range(CROWD):
            nursery.start_soon(ask)


async def test_a_probe_overtakes_those_who_stand_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    in_line, closed, served = [], trio.Event(), []

    async def wait(_rounds: Rounds) -> None:
        in_line.append(1)
        await closed.wait()

    async def note(scope: Scope, _receive: Receive, send: Send) -> None:
        served.append(scope["path"])
        await answer(send)

    monkeypatch.setattr(Rounds, "is_full", lambda _: True)
    monkeypatch.setattr(Rounds, "next_one", wait)
    async with running(application(note), ServerSettings(probes=frozenset({b"/health"}))) as server:
        waiting = await server.connect()
        await waiting.send(GET)
        await until(lambda: in_line)
        assert (await server.ask(PROBE)).status == 200
        assert served == ["/health"]
        closed.set()
        assert (await waiting.answer()).status == 200
        assert served == ["/health", "/"]
