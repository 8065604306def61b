"""The watcher of foreign hashes: looks at once and every minute, and counts rarely."""

from typing import Any

import trio

from actors.watchers import ForeignHashWatcher
from core.domain.errors import Unavailable
from tests.actors.observed import no_spread
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True


class WatchedHashes:
    """Implements the called methods of `core.usecases.identity.account_passwords.ForeignHashes`."""

    def __init__(self) -> None:
        self.remain = True
        self.away_until = 0.0
        self.looks: list[float] = []
        self.counts: list[bool] = []

    async def look(self) -> bool:
        await trio.lowlevel.checkpoint()
        if trio.current_time() < self.away_until:
            raise Unavailable(retry_after=2)
        self.looks.append(trio.current_time())
        return self.remain

    async def count(self, *, remain: bool) -> None:
        await trio.lowlevel.checkpoint()
        self.counts.append(remain)


async def watch(watched: Any, minutes: int) -> None:
    with trio.move_on_after(60 * minutes - 1):
        await ForeignHashWatcher(watched, spread=no_spread).run()


async def test_it_looks_every_minute_and_counts_every_fifteenth() -> None:
    watched = WatchedHashes()
    began = trio.current_time()
    await watch(watched, 31)
    assert [round(at - began) for at in watched.looks] == [60 * minute for minute in range(31)]
    assert watched.counts == [True, True, True]


async def test_it_says_at_once_that_none_remains() -> None:
    watched = WatchedHashes()
    watched.remain = False
    await watch(watched, 2)
    assert watched.counts == [False, False]


async def test_it_waits_for_the_database(log: CapturedLog) -> None:
    log.allow("waiting_for_dependency")
    watched = WatchedHashes()
    watched.away_until = trio.current_time() + 10
    await watch(watched, 2)
    assert watched.looks[0] >= watched.away_until
