"""Batch writers: requests hand in values, and an actor writes the values to the database once a second, so that no request waits."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

import trio

from actors.heartbeats import turned
from actors.outages import Outage
from core.domain.errors import Overloaded, Unavailable

Key = TypeVar("Key")
Value = TypeVar("Value")

_INTERVAL: Final = 1.0
# A writer that nobody hands anything looks around after so many seconds, so that it is known to be alive.
_IDLE: Final = 30.0
# Small enough that other tasks get their turn.
_GATHERED_AT_ONCE: Final = 500
# The seconds at shutdown in which the last values are written.
_LAST_WRITE: Final = 1.0


class BatchWriter(ABC, Generic[Key, Value]):
    """The writer's channel holds up to `most` values, and so does the writer itself during an outage. A value that finds no room is
    dropped, so write a value that must not be lost in a unit of work instead.
    """

    def __init__(self, name: str, *, spread: Callable[[], float], most: int) -> None:
        self.name = name
        self._most = most
        self._outage = Outage(name, spread)
        self._sender, self._receiver = trio.open_memory_channel[tuple[Key, Value]](most)
        self._gathered: dict[Key, Value] = {}

    def post(self, key: Key, value: Value) -> None:
        """Never waits and never fails."""
        try:
            self._sender.send_nowait((key, value))
        except trio.WouldBlock:
            self._drop()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            while True:
                turned(pause=_IDLE)
                if not self._gathered:
                    with trio.move_on_after(_IDLE) as idle:
                        self._gather(*await self._receiver.receive())
                    if idle.cancelled_caught:
                        continue
                await trio.sleep(_INTERVAL)
                await self._gather_all()
                await self._write()
        except trio.Cancelled:
            with trio.move_on_after(_LAST_WRITE, shield=True):
                await self._gather_all()
                await self._write()
            if self._gathered:
                self._tell_lost(len(self._gathered))
            raise

    def _gather(self, key: Key, value: Value) -> None:
        known = self._gathered.get(key)
        if known is None and len(self._gathered) >= self._most:
            self._drop()
        elif known is None or self._replaces(value, known):
            self._gathered[key] = value

    async def _gather_all(self) -> None:
        """Takes all values that are in the channel now. Values that come meanwhile are left for the next second."""
        for number in range(1, self._receiver.statistics().current_buffer_used + 1):
            self._gather(*self._receiver.receive_nowait())
            if number % _GATHERED_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()

    async def _write(self) -> None:
        """Forgets the values only once they are written. Writing them twice does no harm."""
        if not self._gathered:
            return
        try:
            await self._store(self._gathered)
        except (Unavailable, Overloaded) as error:
            # The pause that `began` returns is not waited for, because the channel must be emptied meanwhile.
            self._outage.began(error)
        else:
            self._outage.over()
            self._gathered = {}

    @abstractmethod
    def _replaces(self, value: Value, known: Value) -> bool:
        """Whether the value takes the place of an earlier value under the same key."""

    @abstractmethod
    def _drop(self) -> None:
        """Counts a value that found no room."""

    @abstractmethod
    def _tell_lost(self, number: int) -> None:
        """Logs that so many values could not be written at shutdown."""

    @abstractmethod
    async def _store(self, values: Mapping[Key, Value]) -> None: ...
