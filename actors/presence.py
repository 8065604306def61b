"""Presence: a request leaves a mark of when a session or an API key was last used, and an actor writes the marks to the database."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, TypeVar

import structlog

from actors.batch_writer import BatchWriter
from ports.metrics import Metrics
from ports.system import PresenceStore

log = structlog.get_logger()

Seen = TypeVar("Seen")

# Marks between two writes, and marks kept during an outage: a few megabytes.
_MOST: Final = 20_000


class PresenceWriter(BatchWriter[Seen, datetime]):
    """Implements `ports.system.Presence`. A metric counts each dropped mark, and the next request of that session or key leaves a new
    mark. If the last marks are lost at shutdown, "last seen" is at most a minute too old.
    """

    def __init__(
        self, store: PresenceStore[Seen], metrics: Metrics, *, spread: Callable[[], float], name: str = "presence", most: int = _MOST
    ) -> None:
        super().__init__(name, spread=spread, most=most)
        self._marks = store
        self._metrics = metrics

    def seen(self, one: Seen, at: datetime) -> None:
        self.post(one, at)

    def _replaces(self, value: datetime, known: datetime) -> bool:
        return value > known

    def _drop(self) -> None:
        self._metrics.presence_dropped()

    def _tell_lost(self, number: int) -> None:
        log.warning("presence_not_written", actor=self.name, marks=number)

    async def _store(self, values: Mapping[Seen, datetime]) -> None:
        await self._marks.mark_seen(values)
