"""The login counter: adds sign-ins to the counts of their hours. Whoever reads the counts adds what is not counted yet, so nothing depends
on its pace.
"""

from collections.abc import Callable
from typing import Final

import trio

from actors.outages import Outage
from core.domain.platform.analytics import COUNTED_AT_ONCE
from ports.platform.analytics import LoginCounter

_INTERVAL: Final = 10.0
_SHORTEST_BREATH: Final = 0.005


class LoginCounting:
    """One in each process. A lock in the database lets one of them count at a time."""

    name = "login_counter"

    def __init__(self, counter: LoginCounter, *, spread: Callable[[], float], interval: float = _INTERVAL) -> None:
        self._counter = counter
        self._spread = spread
        self._interval = interval
        self._outage = Outage(self.name, spread)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            await trio.sleep(self._interval * (1 + self._spread() / 5))
            await self.catch_up()

    async def catch_up(self) -> int:
        """Everything that waits now. Returns how many were counted."""
        total = 0
        while True:
            began = trio.current_time()
            counted = await self._outage.wait_out(lambda: self._counter.count(COUNTED_AT_ONCE))
            total += counted
            if counted < COUNTED_AT_ONCE:
                return total
            # As long as the batch took: at most half of one connection's time.
            await trio.sleep(max(_SHORTEST_BREATH, trio.current_time() - began))
