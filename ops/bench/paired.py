"""Comparisons on one PostgreSQL by short loads in turns, so that other work on the machine affects all of them alike."""

import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice, takewhile
from operator import attrgetter
from pathlib import Path
from typing import Final

import trio

from ops.bench import processes
from ops.bench.harness import DidNotStart
from ops.bench.load import Summary, Tally, Target, ask_each, fetch
from ops.bench.report import number
from ops.bench.shared_postgres import SharedPostgres

Load = Callable[[], Awaitable[Summary]]


@dataclass(slots=True)
class Costs:
    """Processor time, in seconds."""

    server: float = 0.0
    """Of all threads of the server."""
    unhashed: float = 0.0
    """Of the threads with the priority of the first one. Postern's hashing threads have another."""
    postgres: float = 0.0
    """Of the backends that serve the server."""


@dataclass(frozen=True, slots=True)
class Side:
    """A running server, and the name of its database on the common PostgreSQL."""

    pid: int
    database: str
    postgres: SharedPostgres

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[Costs]:
        """After the block, the value holds what the server used inside it."""
        costs = Costs()
        backends = await trio.to_thread.run_sync(self.postgres.cpu, self.database)
        threads = processes.thread_seconds([self.pid])
        unhashed = processes.thread_seconds([self.pid], at_first_ones_priority=True)
        yield costs
        costs.server = processes.spent(threads, processes.thread_seconds([self.pid]))
        costs.unhashed = processes.spent(unhashed, processes.thread_seconds([self.pid], at_first_ones_priority=True))
        costs.postgres = processes.spent(backends, await trio.to_thread.run_sync(self.postgres.cpu, self.database))


@dataclass(frozen=True, slots=True)
class Turn:
    """One load, and its cost: microseconds a request."""

    load: Summary
    server: float
    unhashed: float
    postgres: float

    @property
    def with_postgres(self) -> float:
        return self.server + self.postgres

    @property
    def unhashed_with_postgres(self) -> float:
        return self.unhashed + self.postgres


WITH_POSTGRES: Final = attrgetter("with_postgres")
"""A server that leaves work to the database does not do less work, so both parts count."""
UNHASHED_WITH_POSTGRES: Final = attrgetter("unhashed_with_postgres")
"""Hashing costs the same everywhere, and far more than the rest of a sign-in."""


@dataclass(slots=True)
class Contestant:
    """A server, the load on it, and the turns that count."""

    name: str
    side: Side
    load: Load
    turns: list[Turn] = field(default_factory=list)

    async def take(self) -> Turn:
        """Raises `DidNotStart` if there was no answer at all: a request has no cost then."""
        async with self.side.counting() as costs:
            load = await self.load()
        if not load.requests:
            raise DidNotStart(f"{self.name}: nothing was answered in a whole turn, and {load.failures} requests failed")
        each = 1e6 / load.requests
        return Turn(load, costs.server * each, costs.unhashed * each, costs.postgres * each)

    def median(self, figure: Callable[[Turn], float]) -> float:
        return statistics.median(map(figure, self.turns))

    @property
    def failures(self) -> int:
        return sum(turn.load.failures for turn in self.turns)

    def described(self) -> str:
        """The words beside a figure of processor time."""
        return (
            f"PostgreSQL {number(self.median(lambda turn: turn.postgres))} µs, "
            f"{number(self.median(lambda turn: turn.load.rate))} a second, "
            f"p50 {number(self.median(lambda turn: turn.load.p50) * 1e3)} ms, "
            f"p99 {number(self.median(lambda turn: turn.load.p99) * 1e3)} ms"
        )


async def take_turns(contestants: Sequence[Contestant], turns: int) -> None:
    """Runs `turns` of each, in one order and then in the other. A first one warms up and does not count."""
    for turn in range(turns + 1):
        for one in contestants if turn % 2 else reversed(contestants):
            taken = await one.take()
            if turn:
                one.turns.append(taken)


def ratio(first: Contestant, second: Contestant, figure: Callable[[Turn], float]) -> float:
    """The median of the turns' ratios."""
    return statistics.median(figure(one) / figure(other) for one, other in zip(first.turns, second.turns, strict=True))


def each_once(targets: Iterator[Target], connections: int, seconds: float, most: int | None = None) -> Load:
    """A load by our own generator, because wrk cannot send different bodies. It waits for the requests under way at the end: they cost, so
    they count. A turn ends early after `most` requests, so that single-use targets suffice for every turn.
    """

    async def load() -> Summary:
        tally, until = Tally(), trio.current_time() + seconds
        turn = islice(targets, most)
        await ask_each(takewhile(lambda _: trio.current_time() < until, turn), tally, connections=connections)
        return tally.summary()

    return load


async def check(name: str, target: Target, asked: Path, people: int) -> None:
    """Checks that the server lets this many people in, and gives each their own answer. Raises `DidNotStart`."""
    lines = (await trio.Path(asked).read_text()).splitlines()
    bodies = set()
    for line in (lines[0], lines[-1]):
        header, _, value = line.partition(": ")
        answer = await fetch(Target(target.host, target.port, target.path, {header: value}))
        if answer is None or answer.status != 200:
            raise DidNotStart(f"{name} does not let its people in: {answer}")
        bodies.add(answer.body)
    if len(lines) != people or len(bodies) != 2:
        raise DidNotStart(f"{name} gives the same answer to different people")
