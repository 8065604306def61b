"""The watcher of foreign hashes: tells this process, every minute, which password hashes of other systems remain."""

from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from actors.heartbeats import turned
from actors.outages import Outage
from core.usecases.identity.account_passwords import ForeignHashes

_INTERVAL: Final = 60.0
# Counting reads as many entries of an index as there are such hashes, so it is done in every fifteenth round.
_ROUNDS_BETWEEN_COUNTS: Final = 15


class ForeignHashWatcher:
    name = "foreign_hash_watcher"

    def __init__(self, foreign_hashes: ForeignHashes, *, spread: Callable[[], float]) -> None:
        self._foreign_hashes = foreign_hashes
        self._outage = Outage(self.name, spread)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        rounds = 0
        while True:
            turned(pause=_INTERVAL)
            remain = await self._outage.wait_out(self._foreign_hashes.look)
            if not remain or not rounds % _ROUNDS_BETWEEN_COUNTS:
                await self._outage.wait_out(partial(self._foreign_hashes.count, remain=remain))
            rounds = rounds + 1 if remain else 0
            await trio.sleep(_INTERVAL)
