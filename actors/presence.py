"""Presence: requests leave marks of when a session or an API key was last used. They are gathered and written once a second, so that no
request waits for them.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final, Generic, TypeVar

import structlog
import trio

from actors.outages import Outage
from core.domain.errors import Overloaded, Unavailable
from ports.metrics import Metrics
from ports.presence import PresenceStore

log = structlog.get_logger()

Seen = TypeVar("Seen")

# Marks between two writes, and marks kept during an outage: a few megabytes.
_MOST: Final = 20_000
_INTERVAL: Final = 1.0
# Small enough that other tasks get their turn.
_GATHERED_AT_ONCE: Final = 500
# At shutdown, the last marks may still be written for this long. Losing them costs at most a minute of "last seen".
_LAST_WRITE: Final = 1.0


class PresenceWriter(Generic[Seen]):
    """An actor that implements `ports.presence.Presence`. When the channel is full, the mark is dropped and counted; the next request
    brings another.
    """

    def __init__(
        self, store: PresenceStore[Seen], metrics: Metrics, *, spread: Callable[[], float], name: str = "presence", most: int = _MOST
    ) -> None:
        self.name = name
        self._store = store
        self._metrics = metrics
        self._most = most
        self._outage = Outage(self.name, spread)
        self._send, self._receive = trio.open_memory_channel[tuple[Seen, datetime]](most)
        self._newest: dict[Seen, datetime] = {}

    def seen(self, one: Seen, at: datetime) -> None:
        try:
            self._send.send_nowait((one, at))
        except trio.WouldBlock:
            self._metrics.presence_dropped()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            while True:
                if not self._newest:
                    self._gather(*await self._receive.receive())
                await trio.sleep(_INTERVAL)
                await self._gather_all()
                await self._write()
        except trio.Cancelled:
            with trio.move_on_after(_LAST_WRITE, shield=True):
                await self._gather_all()
                await self._write()
            if self._newest:
                log.warning("presence_not_written", actor=self.name, marks=len(self._newest))
            raise

    def _gather(self, one: Seen, at: datetime) -> None:
        known = self._newest.get(one)
        if known is None and len(self._newest) >= self._most:
            self._metrics.presence_dropped()
        elif known is None or known < at:
            self._newest[one] = at

    async def _gather_all(self) -> None:
        """Everything that is there now. What comes meanwhile is left for the next second."""
        for number in range(1, self._receive.statistics().current_buffer_used + 1):
            self._gather(*self._receive.receive_nowait())
            if number % _GATHERED_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()

    async def _write(self) -> None:
        """Forgets the marks only once they are written. Writing them twice does no harm, because last-seen never moves back."""
        if not self._newest:
            return
        try:
            await self._store.mark_seen(self._newest)
        except (Unavailable, Overloaded) as error:
            # Wait no longer than usual, because the channel must be emptied meanwhile.
            self._outage.began(error)
        else:
            self._outage.over()
            self._newest = {}
