"""Looks at what a server holds while a drill goes on: resident memory and open descriptors of its processes, every few seconds."""

import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import trio

from ops.bench import processes
from ops.bench.harness import Server

LOOK: Final = 2.0
# The first tenth of a drill fills caches and pools.
_WARM: Final = 10


@dataclass(frozen=True, slots=True)
class Held:
    """The descriptors are those of the process that has most."""

    megabytes: float
    descriptors: int


@dataclass(slots=True)
class Watcher:
    server: Server
    held: list[Held] = field(default_factory=list)

    async def watch(self) -> None:
        while True:
            with suppress(OSError):  # A process that was killed a moment ago.
                workers = self.server.workers()
                megabytes = sum(processes.resident_megabytes(pid) for pid in workers)
                self.held.append(Held(megabytes, max(processes.descriptors(pid) for pid in workers)))
            await trio.sleep(LOOK)

    @property
    def early(self) -> Held:
        """The middle of what was held in the first third, once it was warm."""
        return _middle(self.held[len(self.held) // _WARM : len(self.held) // 3])

    @property
    def late(self) -> Held:
        """The middle of what was held in the last third."""
        return _middle(self.held[-(len(self.held) // 3) :])


def _middle(held: Sequence[Held]) -> Held:
    return Held(statistics.median(one.megabytes for one in held), round(statistics.median(one.descriptors for one in held)))
