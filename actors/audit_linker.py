"""The audit linker: puts the entries of the audit log into their chains, about a second after they were written."""

from collections.abc import Callable
from typing import Final

import structlog
import trio

from actors.heartbeats import turned
from actors.outages import Outage
from core.usecases.record import LINKED_AT_ONCE, Audit

log = structlog.get_logger()

_INTERVAL: Final = 1.0


class AuditLinker:
    """One in each process. A lock in the database lets one of them work at a time, because each link needs the one before it."""

    name = "audit_linker"

    def __init__(self, audit: Audit, *, spread: Callable[[], float], interval: float = _INTERVAL) -> None:
        self._audit = audit
        self._spread = spread
        self._interval = interval
        self._outage = Outage(self.name, spread)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turned(pause=self._interval * 1.2)
            linked = await self._outage.wait_out(self._audit.link)
            if linked != LINKED_AT_ONCE:
                # Nothing is left for now, or another process is at work. The spread keeps the processes from asking in step.
                await trio.sleep(self._interval * (1 + self._spread() / 5))
            else:
                await trio.lowlevel.checkpoint()
