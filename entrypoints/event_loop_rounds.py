"""Keeps the rounds of the event loop short."""

from time import perf_counter
from typing import Final

import trio

LONGEST: Final = 0.001
"""In seconds. Once a round has lasted longer, a task that asks for a fair turn gets the turn in a later round."""
CROWDED: Final = 0.012
"""In seconds. Once a round has lasted this long, no further request begins in that round: more than a hundred have begun already."""
MOST: Final = 4
"""The most tasks from the line that go on in one round."""


class Rounds:
    """In each round, Trio collects the tasks that can run, and runs all of them, one after the other, before the next round begins. When
    two hundred tasks can run, a task that comes a moment later waits for each of them. So work of some length starts only in a round that
    has room for such work, and otherwise waits in line. A new connection's first request and its end wait in the same way. Further requests
    wait only in a very long round: requests that begin together share their look-ups, which costs each of them less.

    The rounds of one event loop. Trio calls this instrument when a round begins, which costs half a microsecond for each round.
    """

    def __init__(self) -> None:
        self._began = perf_counter()
        self._runs = False
        self._line: Final = trio.lowlevel.ParkingLot()
        # `run` sleeps here while the line is empty.
        self._usher: Final = trio.lowlevel.ParkingLot()

    def after_io_wait(self, _timeout: float) -> None:
        """Notes that a round begins. Trio chose the method's name."""
        self._began = perf_counter()

    def is_full(self) -> bool:
        """Whether work of some length or a new connection has to wait in line: the round is long, or other tasks wait already."""
        return self._runs and (bool(self._line) or perf_counter() - self._began > LONGEST)

    def is_crowded(self) -> bool:
        """Whether a further request on an open connection has to wait."""
        return self._runs and perf_counter() - self._began > CROWDED

    async def next_one(self) -> None:
        """Waits in line for a later round. Callers ask `is_full` or `is_crowded` first."""
        self._usher.unpark()
        await self._line.park()

    async def run(self) -> None:
        """Wakes tasks in line: some in each round, fewer after a long round, and more after a short round."""
        _rounds.set(self)
        trio.lowlevel.add_instrument(self)  # type: ignore[arg-type]  # it need not have the other methods
        self._runs = True
        try:
            while True:
                some = 1
                while self._line:
                    self._line.unpark(count=some)
                    before = self._began
                    await trio.lowlevel.checkpoint()
                    some = _as_many(some, self._began - before)
                await self._usher.park()
        finally:
            self._runs = False
            self._line.unpark_all()
            trio.lowlevel.remove_instrument(self)  # type: ignore[arg-type]


def _as_many(some: int, seconds: float) -> int:
    if seconds > LONGEST:
        return max(some // 2, 1)
    return min(some + 1, MOST) if seconds < LONGEST / 2 else some


_rounds: Final[trio.lowlevel.RunVar[Rounds]] = trio.lowlevel.RunVar("rounds")


async def fair_turn() -> None:
    """Waits for a round that has room. Call `fair_turn` before work of a tenth of a millisecond and more. The call costs nothing in a round
    that has room.
    """
    try:
        rounds = _rounds.get()
    except LookupError:
        # There are no rounds: this process runs a command and serves no requests.
        return
    if rounds.is_full():
        await rounds.next_one()
