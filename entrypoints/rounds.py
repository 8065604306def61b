"""Short rounds of the event loop. Trio asks who can go on, and then lets all of them go on, one after the other, before it asks again: when
two hundred can, whoever comes a moment later waits for each of them. So work of some length goes on in a round that has room for it, and
stands in line in any other. So do a new connection's first request and its end. Further requests wait only where a round is very long:
those that begin together look things up together, which costs each of them less.
"""

from time import perf_counter
from typing import Final

import trio

LONGEST: Final = 0.001
"""In seconds. Once a round has lasted longer, whoever asks for a fair turn gets it in a later one."""
CROWDED: Final = 0.012
"""Once it has lasted this long, no request begins in it: more than a hundred have."""
MOST: Final = 4
"""From the line, in one round."""


class Rounds:
    """Trio tells it when a round begins: this is one of its instruments, which costs a round half a microsecond."""

    def __init__(self) -> None:
        self._began = perf_counter()
        self._runs = False
        self._line: Final = trio.lowlevel.ParkingLot()
        # Asleep while nobody stands in line.
        self._usher: Final = trio.lowlevel.ParkingLot()

    def after_io_wait(self, _timeout: float) -> None:
        """Trio's name for the beginning of a round."""
        self._began = perf_counter()

    def is_full(self) -> bool:
        """For work of some length, and for newcomers. Whoever comes while there is a line stands behind it."""
        return self._runs and (bool(self._line) or perf_counter() - self._began > LONGEST)

    def is_crowded(self) -> bool:
        """For the beginning of a request on a connection that has brought others."""
        return self._runs and perf_counter() - self._began > CROWDED

    async def next_one(self) -> None:
        """Waits in line, if the round is full."""
        self._usher.unpark()
        await self._line.park()

    async def run(self) -> None:
        """Calls those in line: some in each round, fewer after a long one, and more after a short one."""
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
    """Before work of a tenth of a millisecond and more. Costs nothing in a round that has room for it."""
    try:
        rounds = _rounds.get()
    except LookupError:
        # Nothing is served here: a command is at work.
        return
    if rounds.is_full():
        await rounds.next_one()
