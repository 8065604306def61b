"""Recorders and usage markers: requests hand in values, and batch writers store them once a second, so that no request waits."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Generic, TypeVar

import structlog
import trio

from actors.foundation import Mishaps, Outage, turned
from core.domain.errors import Overloaded, Unavailable
from core.domain.federation.authorization_refusals import AuthorizationRefusal, DocumentRefusal
from core.domain.federation.scim.tokens import ScimExchange
from core.domain.identifiers import AuthorizationRefusalId, ConnectionExchangeId, ScimExchangeId
from core.domain.identity.upstream.connection_tests import ConnectionExchange, joined
from ports.federation.oauth import AuthorizationRefusalStore
from ports.federation.scim import ScimExchangeStore
from ports.identity.upstream import ConnectionExchangeStore
from ports.metrics import Metrics
from ports.system import PresenceStore

Key = TypeVar("Key")
Value = TypeVar("Value")
log = structlog.get_logger()
Seen = TypeVar("Seen")


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


# Marks between two writes, and marks kept during an outage: a few megabytes.
_MOST: Final = 20_000


class PresenceWriter(BatchWriter[Seen, datetime]):
    """Implements `ports.system.Presence`. A metric counts each dropped mark, and the next request of that session or key leaves a new mark.
    If the last marks are lost at shutdown, "last seen" is at most a minute too old.

    A request leaves a marker of when a session or an API key was last used, and this actor writes the markers to the database.
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


class Recorder(BatchWriter[Key, Value]):
    """When too many records wait, the newest are dropped."""

    def __init__(
        self, name: str, add: Callable[[Sequence[Value]], Awaitable[None]], metrics: Metrics, *, spread: Callable[[], float], most: int
    ) -> None:
        super().__init__(name, spread=spread, most=most)
        self._add = add
        self._mishaps = Mishaps(self.name, metrics)
        self._dropped = 0

    @abstractmethod
    def _owner(self, value: Value) -> tuple[str, str]:
        """The one whose record it is: a word for the log, and an id."""

    def _replaces(self, value: Value, known: Value) -> bool:
        return value != known

    def _drop(self) -> None:
        self._dropped += 1

    async def _write(self) -> None:
        if self._dropped:
            self._tell_lost(self._dropped)
            self._dropped = 0
        await super()._write()

    async def _store(self, values: Mapping[Key, Value]) -> None:
        """If the database refuses a record, the waiting records of the same owner are lost with it, and no others."""
        writing = list(values.values())
        try:
            await self._add(writing)
        except (Unavailable, Overloaded):
            raise
        except Exception:  # noqa: BLE001 - logged below, with the owner
            for owner in dict.fromkeys(map(self._owner, writing)):
                await self._store_those_of(owner, [one for one in writing if self._owner(one) == owner])

    async def _store_those_of(self, owner: tuple[str, str], writing: Sequence[Value]) -> None:
        try:
            await self._add(writing)
        except (Unavailable, Overloaded):
            raise
        except Exception as error:  # noqa: BLE001 - a mishap of this owner must not stop the others
            self._mishaps.tell(error, **dict([owner]))


# The most exchanges kept between two writes, and during an outage.
_CONNECTION_RECORDER_MOST: Final = 2000


class ConnectionExchangeWriter(Recorder[ConnectionExchangeId, ConnectionExchange]):
    """Implements `ports.identity.upstream.ConnectionRecorder`.

    Stores the exchanges with organizations' own identity providers, so that administrators can find out why a sign-in failed.
    """

    def __init__(
        self, store: ConnectionExchangeStore, metrics: Metrics, *, spread: Callable[[], float], most: int = _CONNECTION_RECORDER_MOST
    ) -> None:
        super().__init__("connection_recorder", store.add, metrics, spread=spread, most=most)

    def record(self, exchange: ConnectionExchange) -> None:
        self.post(exchange.id, exchange)

    def _gather(self, key: ConnectionExchangeId, value: ConnectionExchange) -> None:
        known = self._gathered.get(key)
        super()._gather(key, value if known is None else joined(known, value))

    def _owner(self, value: ConnectionExchange) -> tuple[str, str]:
        return "provider", str(value.provider)

    def _tell_lost(self, number: int) -> None:
        log.warning("connection_exchanges_dropped", exchanges=number)


# The most refusals kept between two writes, and during an outage. Anybody can send requests that are refused.
_REFUSAL_RECORDER_MOST: Final = 1000


class RefusalRecorder(Recorder[AuthorizationRefusalId, AuthorizationRefusal | DocumentRefusal]):
    """Stores refused requests of applications, so that the people who manage the applications can find out why."""

    def __init__(
        self, store: AuthorizationRefusalStore, metrics: Metrics, *, spread: Callable[[], float], most: int = _REFUSAL_RECORDER_MOST
    ) -> None:
        super().__init__("refusal_recorder", store.add, metrics, spread=spread, most=most)

    def record(self, refusal: AuthorizationRefusal | DocumentRefusal) -> None:
        self.post(refusal.id, refusal)

    def _owner(self, value: AuthorizationRefusal | DocumentRefusal) -> tuple[str, str]:
        return ("api", str(value.api)) if isinstance(value, DocumentRefusal) else ("client", str(value.client))

    def _tell_lost(self, number: int) -> None:
        log.warning("authorization_refusals_dropped", refusals=number)


# The most exchanges kept between two writes, and during an outage.
_SCIM_EXCHANGE_WRITER_MOST: Final = 2000


class ScimExchangeWriter(Recorder[ScimExchangeId, ScimExchange]):
    """Implements `ports.federation.scim.ScimRecorder`.

    Stores the requests of directories by SCIM, so that owners can look at them.
    """

    def __init__(
        self, store: ScimExchangeStore, metrics: Metrics, *, spread: Callable[[], float], most: int = _SCIM_EXCHANGE_WRITER_MOST
    ) -> None:
        super().__init__("scim_recorder", store.add, metrics, spread=spread, most=most)

    def record(self, exchange: ScimExchange) -> None:
        self.post(exchange.id, exchange)

    def _owner(self, value: ScimExchange) -> tuple[str, str]:
        return "organization", str(value.organization)

    def _tell_lost(self, number: int) -> None:
        log.warning("scim_exchanges_dropped", exchanges=number)
