"""Monitors every host of a connection string, and connections whose tasks wait for long."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import psycopg
import structlog
import trio
from psycopg.abc import ConnDict
from psycopg.conninfo import make_conninfo

from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.hosts import SharedSession, answered, hosts_of, name_of, resolved
from adapters.postgres.driver.pool import Pool, PoolClosed, PoolExhausted, WriterAway

log = structlog.get_logger()


LOOKOUT_NAME: Final = "postern lookout"
# In seconds, for the answers of all hosts, since they are asked at once.
LOOKOUT_PATIENCE: Final = 2.0
# Between two rounds while nothing is wrong.
LOOKOUT_PAUSE: Final = 30.0
# Ends of the log that are kept, one a second. A server that is further behind than all of them is not read.
_MOST_ENDS: Final = 60
_END_WITHIN: Final = 1.0


class HostState(StrEnum):
    """In words that anybody may read."""

    WRITES = "takes writes"
    READS = "takes no writes"
    REFUSES = "refuses the connection"
    SILENT = "no answer"


# Of a host with several addresses, the state that counts.
_RANKS: Final = list(HostState)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """How far the log goes: two servers are at one point if both agree."""

    timeline: int
    position: int


@dataclass(frozen=True, slots=True)
class SeenAddress:
    state: HostState
    detail: str | None = None
    """The server's or the network's own words, for operators."""
    parameters: ConnDict = field(default_factory=dict)
    end: LogEnd | None = None
    """As far as it shows the log. None where the server does not tell."""


@dataclass(frozen=True, slots=True)
class SeenHost:
    name: str
    addresses: Sequence[SeenAddress]

    @property
    def best(self) -> SeenAddress:
        return min(self.addresses, key=lambda address: _RANKS.index(address.state))

    @property
    def state(self) -> HostState:
        return self.best.state

    def __str__(self) -> str:
        return f"{self.name}: {self.state}"


async def seen_hosts(conninfo: str, patience: float = LOOKOUT_PATIENCE) -> list[SeenHost]:
    """All hosts, in the operator's order, asked at once and within `patience`. Raises no database error. Empty if Postern does not look for
    the one that takes writes.
    """
    hosts = hosts_of(conninfo)
    found: dict[int, SeenHost] = {}

    async def look(place: int, host: ConnDict) -> None:
        found[place] = SeenHost(name_of(host), await _seen_addresses(host, patience))

    async with trio.open_nursery() as nursery:
        for place, host in enumerate(hosts):
            nursery.start_soon(look, place, host)
    return [found[place] for place in range(len(hosts))]


async def _seen_addresses(host: ConnDict, patience: float) -> Sequence[SeenAddress]:
    found: list[SeenAddress] = []

    async def look(address: ConnDict) -> None:
        found.append(await _seen(address))

    with trio.move_on_after(patience):
        try:
            addresses = await resolved(host)
        except OSError as error:
            return [SeenAddress(HostState.SILENT, f"the name cannot be resolved: {error.strerror}")]
        async with trio.open_nursery() as nursery:
            for address in addresses:
                nursery.start_soon(look, address)
        return found
    # Those that have answered did so. At least one has not.
    return [*found, SeenAddress(HostState.SILENT, f"nothing within {patience:g} s")]


async def _seen(address: ConnDict) -> SeenAddress:
    try:
        async with await Connection.connect(make_conninfo("", **address), fallback_application_name=LOOKOUT_NAME) as connection:
            connection.recovery = 0
            (writes,) = await (await connection.execute(_TAKES_WRITES)).fetchone() or (False,)
            state = HostState.WRITES if writes else HostState.READS
            try:
                row = await (await connection.execute(_END)).fetchone()
            except psycopg.DatabaseError:  # a service that has PostgreSQL's words, and another log
                row = None
            return SeenAddress(state, None, address, None if row is None or None in row else LogEnd(*row))
    except SharedSession as error:
        return SeenAddress(HostState.REFUSES, str(error))
    except psycopg.OperationalError as error:
        return SeenAddress(HostState.REFUSES if answered(error) else HostState.SILENT, " ".join(str(error).split()))


class Lookout:
    """Finds the host that takes writes, for one pool. `look` is called once a second.

    A pool speaks to a server that takes writes. When none does, whoever comes next would ask all hosts again, and wait for the silent ones.
    So the lookout asks them in their place, all at once, and tells the pool: until one takes writes again, connections lead to a server
    that can be read, or are refused at once. A host takes writes, or is read-only, or does not respond.

    A standby may lack the end of a session. So the lookout notes once a second where the log of the primary ends. A server that has come as
    far shows all that was true then, and may be read for `standby_reads` seconds from then on. When every host responds and none takes
    writes, nobody can have ended anything, and the time begins again. No clock is compared with another.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        standby_reads: float = 0.0,
        patience: float = LOOKOUT_PATIENCE,
        pause: float = LOOKOUT_PAUSE,
        most_ends: int = _MOST_ENDS,
    ) -> None:
        self.hosts: Sequence[SeenHost] = ()
        self._pool = pool
        self._standby_reads = standby_reads
        self._patience = patience
        self._pause = pause
        self._next_round = 0.0
        self._ends: deque[tuple[float, LogEnd]] = deque(maxlen=most_ends)

    async def look(self) -> None:
        """Raises no database error. Returns within some seconds."""
        if not hosts_of(self._pool.conninfo):
            return
        if self._pool.away is None and self._pool.troubled_since is None:
            await self._note_end()
        if self._pool.troubled_since is not None or trio.current_time() >= self._next_round:
            await self._ask_all()

    async def _note_end(self) -> None:
        """What was committed before we ask is before the end that we are told."""
        with trio.move_on_after(_END_WITHIN):
            try:
                async with self._pool.connection() as connection:
                    # A statement that outlasts its deadline closes the connection, which would else have more time to finish.
                    recovery, connection.recovery = connection.recovery, 0
                    try:
                        asked = trio.current_time()
                        row = await (await connection.execute(_END_OF_WRITER, prepare=True)).fetchone()
                    finally:
                        connection.recovery = recovery
                    if row is not None and None not in row:
                        self._ends.append((asked, LogEnd(*row)))
            except (psycopg.Error, PoolExhausted, PoolClosed):
                pass

    async def _ask_all(self) -> None:
        asked = trio.current_time()
        self.hosts = hosts = await seen_hosts(self._pool.conninfo, self._patience)
        self._next_round = trio.current_time() + self._pause
        states = {host.state for host in hosts}
        if HostState.WRITES in states or HostState.READS not in states:
            if self._pool.away is not None:
                log.info(
                    "database_host_found" if HostState.WRITES in states else "database_hosts_silent", hosts=[str(one) for one in hosts]
                )
            self._pool.look_for_writer(trouble_is_over=HostState.WRITES in states)
            return
        troubled = self._pool.troubled_since
        if troubled is None or asked < troubled + self._pool.switchover:
            return
        away = self._away(asked, [address for host in hosts for address in host.addresses], "; ".join(str(one) for one in hosts))
        if self._pool.away is None:
            log.warning("no_database_host_takes_writes", hosts=[str(one) for one in hosts], read=away.readable)
        self._pool.writer_is_away(away)

    def _away(self, asked: float, addresses: Sequence[SeenAddress], told: str) -> WriterAway:
        readable = [address for address in addresses if address.state is HostState.READS and address.end is not None]
        if all(address.state is HostState.READS for address in addresses):
            self._nobody_can_have_written(asked, readable)
        proved = {id(address): self._proved(address.end) for address in readable}
        best = max(readable, key=lambda address: (proved[id(address)], self._is_read_now(address)), default=None)
        until = 0.0 if best is None else proved[id(best)] + self._standby_reads
        if best is None or until <= trio.current_time():
            return WriterAway(told, None, 0.0, trio.current_time())
        return WriterAway(told, make_conninfo("", **best.parameters), until, trio.current_time())

    def _is_read_now(self, address: SeenAddress) -> bool:
        return self._pool.away is not None and self._pool.away.conninfo == make_conninfo("", **address.parameters)

    def _nobody_can_have_written(self, asked: float, readable: Sequence[SeenAddress]) -> None:
        """Whoever has the most of the log has all of it, unless we have seen more."""
        furthest = max((address.end for address in readable if address.end), key=lambda end: (end.timeline, end.position), default=None)
        if furthest is not None and self._ends and _has_reached(furthest, self._ends[-1][1]):
            self._ends.append((asked, furthest))

    def _proved(self, end: LogEnd | None) -> float:
        """Until when, by our own clock, a server that has come to this end of the log lacks nothing."""
        return next((at for at, known in reversed(self._ends) if end is not None and _has_reached(end, known)), float("-inf"))


def _has_reached(end: LogEnd, known: LogEnd) -> bool:
    return end.timeline == known.timeline and end.position >= known.position


_TAKES_WRITES: Final = "select not (pg_is_in_recovery() or current_setting('transaction_read_only')::boolean)"

# The log as far as it is on the disk: a commit that was answered is. The first eight digits of a file's name are the timeline. A standby
# knows the timeline that it follows; one that stayed behind on another has nothing to do with the primary's positions.
_END: Final = """
    select case when pg_is_in_recovery()
                then (select min_recovery_end_timeline from pg_control_recovery())
                else ('x' || left(pg_walfile_name(pg_current_wal_flush_lsn()), 8))::bit(32)::int
           end,
           (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end - '0/0')::bigint
"""
_END_OF_WRITER: Final = f"""
    select timeline, position
      from ({_END}) as log_end (timeline, position)
     where not (pg_is_in_recovery() or current_setting('transaction_read_only')::boolean)
"""


WATCH_NAME: Final = "postern watch"
# In seconds. With the second between two looks, together less than ten: by then every task that waits for a hung server has been told.
LONG: Final = 3.0
WATCH_PATIENCE: Final = 4.0


class Watch:
    """Watches over the connections of one pool. `conninfo` says whom to ask: the pool's own server, unless a test asks another one.

    A server can hang: its machine acknowledges all that arrives, and nothing ever responds. No timer of the network notices that. Another
    statement just takes long. So the server is asked, on a connection of its own, whether it works on the statement. If it does not, or
    does not respond, the connection is given up, and the task learns that its server is away.
    """

    def __init__(self, pool: Pool, conninfo: str = "", *, long: float = LONG, patience: float = WATCH_PATIENCE) -> None:
        self._pool = pool
        self._conninfo = conninfo or pool.conninfo
        self._long = long
        self._patience = patience

    async def look(self) -> int:
        """Gives up the connections that the server does not work for, and returns how many. Raises no database error."""
        waiting = self._pool.waiting_longer(self._long)
        if not waiting:
            return 0
        busy = await self._busy([connection.backend for connection in waiting])
        if busy is None:
            return 0
        still = self._pool.waiting_longer(self._long)
        abandoned = [connection for connection in waiting if connection in still and connection.backend not in busy]
        for connection in abandoned:
            connection.abort()
        if abandoned:
            self._pool.drop_idle()
            log.warning("database_connections_given_up", connections=len(abandoned), longer_than=self._long)
        return len(abandoned)

    async def _busy(self, backends: Sequence[int]) -> set[int] | None:
        """Of these backends, those that work on a statement. None when the server answers, but not to this question."""
        with trio.move_on_after(self._patience):
            try:
                async with await Connection.connect(
                    self._conninfo, fallback_application_name=WATCH_NAME, patience=self._patience
                ) as connection:
                    connection.recovery = 0
                    rows = await (await connection.execute(_BUSY, [list(backends)])).fetchall()
                    return {row[0] for row in rows}
            except psycopg.OperationalError as error:
                return None if answered(error) else set()
        return set()


_BUSY: Final = "select pid from pg_stat_activity where pid = any(%s::int[]) and state = 'active'"
