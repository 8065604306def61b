"""The watcher of the filter of breached passwords: looks at once, and every ten seconds."""

from datetime import date

import trio

from actors.watchers import PasswordFilterWatcher
from ports.crypto import ListedPasswords
from tests.actors.observed import RememberedMetrics

FOUND = ListedPasswords(3, date(2026, 5, 1))
ON_A_JUMPING_CLOCK = True


class LookedAt:
    def __init__(self) -> None:
        self.looks: list[float] = []

    async def look(self) -> ListedPasswords | None:
        await trio.lowlevel.checkpoint()
        self.looks.append(trio.current_time())
        return FOUND if len(self.looks) == 2 else None


async def test_it_looks_at_once_and_every_ten_seconds_and_says_what_is_in_force() -> None:
    file, began, metrics = LookedAt(), trio.current_time(), RememberedMetrics()
    with trio.move_on_after(25):
        await PasswordFilterWatcher(file, metrics).run()
    assert [round(one - began) for one in file.looks] == [0, 10, 20]
    assert metrics.filters == [None, FOUND, None]
