"""A bounded pool of connections for Trio. It runs no task of its own: the task that takes or returns a connection does the work."""

import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import psycopg
import trio

from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.hosts import SharedSession, refuses_for_good
from adapters.postgres.driver.pipeline import LAST_WORD

_OPEN: Final = (psycopg.pq.TransactionStatus.INTRANS, psycopg.pq.TransactionStatus.INERROR)
RETRY_AFTER: Final = 1.0
JITTER: Final = 0.1  # of the lifetime, so that connections opened together do not end together
# For so many seconds after the first refusal, a checkout tries again to connect: a switchover takes about two. Afterwards the server counts
# as away, and a checkout that needs a connection fails at its first refusal, until one succeeds.
SWITCHOVER: Final = 3.0
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.25
_READ_ONLY: Final = "25006"
# For so many seconds, a pool believes that no server takes writes. Whoever told it has told it again by then, or does not look any more.
_BELIEVED: Final = 15.0
# A task that gave up after so many seconds of connecting had reason to.
_TRYING: Final = 0.5


class PoolExhausted(Exception):
    """No connection became free in time, or too many wait already."""

    def __init__(self, retry_after: float = RETRY_AFTER) -> None:
        super().__init__(f"no database connection is free; try again in {retry_after:g} s")
        self.retry_after = retry_after


class PoolClosed(Exception):
    """The pool has been closed."""


class NoWriter(psycopg.OperationalError):
    """No host of several takes writes, and none may be read in its place."""


@dataclass(frozen=True, slots=True)
class WriterAway:
    """No host of several takes writes."""

    said: str
    """Each host and its state."""
    conninfo: str | None
    """Where to read meanwhile. None when no server may be read."""
    until: float
    """Of the event loop's clock: from then on, what that server shows may be too old."""
    found_at: float

    @property
    def readable(self) -> bool:
        return self.conninfo is not None


@dataclass(frozen=True, slots=True)
class Statistics:
    """The pool at one moment, and its counters since the start."""

    connections: int  # open, idle or in use
    idle: int
    in_use: int
    opening: int
    waiting: int
    min_size: int
    max_size: int
    opened: int
    lost: int  # found broken
    retired: int  # closed for age or idleness
    waited: int  # checkouts that had to wait for another to return its connection
    refused: int


@dataclass(slots=True, eq=False)
class _Member:
    connection: Connection
    expires_at: float
    idle_since: float = 0.0
    source: str | None = None  # where it reads while no server takes writes


@dataclass(slots=True, eq=False)
class _Waiter:
    """A parked task. It stays in the queue until the pool calls it or it gives up. The pool calls it with a member, or with the right to
    open one; or, when the pool has closed, with neither.
    """

    task: trio.lowlevel.Task
    member: _Member | None = None
    may_open: bool = False


class Lease:
    """One connection for the length of an `async with` block. `Pool.connection()` makes it."""

    __slots__ = ("_member", "_pool")

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._member: _Member | None = None

    async def __aenter__(self) -> Connection:
        self._member = member = await self._pool.take()
        return member.connection

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        member, self._member = self._member, None
        if error is not None:
            self._pool.tell_error(error, member)
        if member is not None:
            await self._pool.give_back(member)


class Pool:
    """At most `max_size` connections. The connection returned last is taken first, and the task that has waited longest is served first.

    The pool checks an idle connection (one system call, no round trip) before handing it out. When one turns out to be broken, the pool
    checks the other idle ones too, so that a restarted server costs only the requests in flight. A block must undo what it does to its
    session (`set`, `listen`, temporary tables, advisory locks); the pool only rolls back transactions.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        min_size: int = 1,
        max_size: int = 10,
        max_waiting: int = 200,
        timeout: float = 5.0,
        max_lifetime: float = 1800.0,
        max_idle: float = 300.0,
        switchover: float | None = None,
        application_name: str = "postern",
        on_wait: Callable[[float], None] | None = None,
    ) -> None:
        """`timeout` bounds a checkout. If a checkout may open a connection after a long wait, it gets half of that time in addition.
        `on_wait` gets the seconds of each checkout that was not served at once.
        """
        if not 0 <= min_size <= max_size or max_size < 1:
            raise ValueError("a pool needs 0 <= min_size <= max_size and at least one connection")
        self.conninfo = conninfo
        self._min_size = min_size
        self._max_size = max_size
        self._max_waiting = max_waiting
        self._timeout = timeout
        self._max_lifetime = max_lifetime
        self._max_idle = max_idle
        self._switchover = SWITCHOVER if switchover is None else switchover
        self._application_name = application_name
        self._on_wait = on_wait
        self._on_error: Callable[[BaseException], None] | None = None
        self._idle: deque[_Member] = deque()  # the right end is the top of the stack
        self._in_use: set[_Member] = set()
        self._opening = 0
        self._waiters: deque[_Waiter] = deque()
        self._closed = False
        self._empty = trio.Event()
        self._opened = self._lost = self._retired = self._waited = self._refused = 0
        self._refused_since: float | None = None
        self._troubled_since: float | None = None
        self._away: WriterAway | None = None
        self._searches: set[trio.CancelScope] = set()

    @property
    def switchover(self) -> float:
        return self._switchover

    @property
    def troubled_since(self) -> float | None:
        """Since when there is reason to think that no server takes writes. None from the next connection to one that does."""
        return self._troubled_since

    @property
    def away(self) -> WriterAway | None:
        if self._away is not None and trio.current_time() > self._away.found_at + _BELIEVED:
            self.look_for_writer(trouble_is_over=False)
        return self._away

    def writer_is_away(self, away: WriterAway) -> None:
        """From now on checkouts look for no writer. They get a connection to the server that can be read, or `NoWriter`."""
        known, self._away = self._away, away
        if known is None or known.conninfo != away.conninfo:
            self.drop_idle()
            for search in self._searches:
                search.cancel()

    def look_for_writer(self, *, trouble_is_over: bool) -> None:
        """From now on checkouts get a connection to a server that takes writes."""
        if self._away is not None:
            self._away = None
            self.drop_idle()
        if trouble_is_over:
            self._troubled_since = None

    async def open(self) -> None:
        """Open the first `min_size` connections. Raises `psycopg.OperationalError` when the server cannot be reached."""
        while self._size() < self._min_size:
            self._opening += 1
            await self.give_back(await self._open())

    def connection(self) -> Lease:
        """`async with pool.connection() as connection`: the connection is idle, in autocommit mode.

        Raises `PoolExhausted` when too many wait or the wait is too long, `PoolClosed`, or `psycopg.OperationalError` when a new connection
        cannot be opened.
        """
        return Lease(self)

    def on_error(self, listener: Callable[[BaseException], None]) -> None:
        """From now on `listener` gets every exception that ends a block on a connection, cancellation included."""
        self._on_error = listener

    def tell_error(self, error: BaseException, member: _Member | None) -> None:
        """For `Lease`: tell the listener of `on_error`, and give up the connections to a server that has become a standby."""
        if member is not None and member.source is None and _READ_ONLY in (_state(error), _state(error.__cause__)):
            member.connection.abort()
            self.drop_idle()
        if self._on_error is not None:
            self._on_error(error)

    def waiting_longer(self, seconds: float) -> list[Connection]:
        """The connections in use whose tasks have waited longer than this for the server."""
        return [member.connection for member in self._in_use if member.connection.waited() > seconds]

    def drop_idle(self) -> None:
        """Close the idle connections: there is reason to think that their server is not the one to speak to any more."""
        self._trouble()
        while self._idle:
            self._lost += 1
            self._idle.pop().connection.abort()

    def _trouble(self) -> None:
        if self._troubled_since is None:
            self._troubled_since = trio.current_time()

    def statistics(self) -> Statistics:
        return Statistics(
            connections=len(self._idle) + len(self._in_use),
            idle=len(self._idle),
            in_use=len(self._in_use),
            opening=self._opening,
            waiting=len(self._waiters),
            min_size=self._min_size,
            max_size=self._max_size,
            opened=self._opened,
            lost=self._lost,
            retired=self._retired,
            waited=self._waited,
            refused=self._refused,
        )

    async def aclose(self, timeout: float = LAST_WORD) -> None:  # noqa: ASYNC109 - the ecosystem's word
        """Close. Connections in use may be returned within `timeout` seconds; after that they are closed under their users."""
        self._closed = True
        while self._waiters:
            trio.lowlevel.reschedule(self._waiters.popleft().task)
        while self._idle:
            self._idle.pop().connection.abort()
        try:
            with trio.move_on_after(timeout):
                if self._size():
                    await self._empty.wait()
        finally:
            for member in self._in_use:
                member.connection.abort()

    async def take(self) -> _Member:
        """For `Lease`: take a member. The fast path costs no turn of the event loop, because the first statement is turn enough."""
        if self._closed:
            raise PoolClosed("the database pool is closed")
        if self._away is not None:
            self._require_readable()
        member = self._pop()  # nothing is idle while a task waits
        if member is not None:
            return member
        began = trio.current_time()
        try:
            return await self._take_slowly(began + self._timeout)
        finally:
            if self._on_wait is not None:
                self._on_wait(trio.current_time() - began)

    def _require_readable(self) -> None:
        away = self.away
        if away is not None and not (away.readable and trio.current_time() < away.until):
            raise NoWriter(f"no host takes writes, and none may be read: {away.said}")

    async def give_back(self, member: _Member) -> None:
        """For `Lease`: puts the member on the stack, or hands it to the task that has waited longest."""
        connection = member.connection
        try:
            if not connection.settled() or not connection.autocommit:
                await _clean(connection)
        finally:
            self._in_use.discard(member)
            self._put(member, trio.current_time())

    def _put(self, member: _Member, now: float) -> None:
        connection = member.connection
        if connection.closed:
            self._lost += 1
            connection.abort()
            self._drop_broken()
            self._call_next(None)
        elif self._closed or now >= member.expires_at or self._leads_elsewhere(member, now):
            self._retired += 1
            connection.abort()
            self._call_next(None)
        elif self._waiters:
            self._in_use.add(member)
            self._call_next(member)
        else:
            member.idle_since = now
            self._idle.append(member)
            while now - self._idle[0].idle_since > self._max_idle and self._size() > self._min_size:
                self._retired += 1
                self._idle.popleft().connection.abort()

    def _leads_elsewhere(self, member: _Member, now: float) -> bool:
        away = self._away
        return member.source is not None if away is None else member.source != away.conninfo or now >= away.until

    def _source(self) -> str | None:
        return None if self._away is None else self._away.conninfo

    def _size(self) -> int:
        return len(self._idle) + len(self._in_use) + self._opening

    def _pop(self) -> _Member | None:
        while self._idle:
            member = self._idle.pop()
            if member.connection.usable():
                self._in_use.add(member)
                return member
            self._lost += 1
            member.connection.abort()
            self._drop_broken()
        return None

    def _drop_broken(self) -> None:
        """One connection was broken: probably the server went away, and the other connections with it."""
        for member in [member for member in self._idle if not member.connection.usable()]:
            self._idle.remove(member)
            self._lost += 1
            member.connection.abort()

    def _call_next(self, member: _Member | None) -> None:
        """Serve the task that has waited longest: with this member, or with the right to open one."""
        if self._waiters:
            waiter = self._waiters.popleft()
            waiter.member = member
            if member is None:
                waiter.may_open = True
                self._opening += 1
            trio.lowlevel.reschedule(waiter.task)
        elif self._closed and not self._size():
            self._empty.set()

    async def _take_slowly(self, deadline: float) -> _Member:
        if self._size() < self._max_size and not self._waiters:
            self._opening += 1
        else:
            member = await self._wait(deadline)
            if member is not None:
                return member
        # A task that has waited in the queue for nearly all of its time gets some more. Otherwise each of those in the queue would begin a
        # connection, have no time to finish it, and leave the next one as little: after an outage, nobody would get one.
        with trio.CancelScope(deadline=max(deadline, trio.current_time() + self._timeout / 2)):
            return await self._open()
        raise psycopg.errors.ConnectionTimeout(f"no database connection could be opened within {self._timeout:g} s")

    async def _wait(self, deadline: float) -> _Member | None:
        """Queue up. Returns a member, or None as the right to open a connection."""
        if len(self._waiters) >= self._max_waiting:
            self._refused += 1
            raise PoolExhausted
        self._waited += 1
        waiter = _Waiter(trio.lowlevel.current_task())
        self._waiters.append(waiter)

        def give_up(_raise_cancel: object) -> trio.lowlevel.Abort:
            # Leave the queue at once, not when the task next runs: in between the pool could call the task, and the handed member would be
            # lost.
            self._waiters.remove(waiter)
            return trio.lowlevel.Abort.SUCCEEDED

        with trio.CancelScope(deadline=deadline):
            await trio.lowlevel.wait_task_rescheduled(give_up)
        if waiter.member is None and not waiter.may_open:
            if self._closed:
                raise PoolClosed("the database pool is closed")
            self._refused += 1
            raise PoolExhausted
        return waiter.member

    async def _open(self) -> _Member:
        """Use up one right to open a connection. When opening fails, the right goes to the next task in the queue."""
        try:
            connection, source = await self._connect()
        except BaseException:
            self._opening -= 1
            self._call_next(None)
            raise
        self._opening -= 1
        if self._closed:
            connection.abort()
            self._call_next(None)
            raise PoolClosed("the database pool is closed")
        self._opened += 1
        lifetime = self._max_lifetime * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, guards nothing
        member = _Member(connection, expires_at=trio.current_time() + lifetime, source=source)
        self._in_use.add(member)
        return member

    async def _connect(self) -> tuple[Connection, str | None]:
        """A connection, and where it reads, if no server takes writes. Nothing has been asked of the server yet, so another try repeats
        nothing.
        """
        pause = _FIRST_PAUSE
        while True:
            if self.away is not None:
                self._require_readable()
                source = self._source()
                return await self._connect_to(source or self.conninfo), source
            with trio.CancelScope() as search:
                self._searches.add(search)
                began = trio.current_time()
                try:
                    connection = await self._connect_to(self.conninfo)
                except psycopg.OperationalError as error:
                    now = trio.current_time()
                    self._trouble()
                    if self._refused_since is None:
                        self._refused_since = now
                    lasting = isinstance(error, SharedSession) or refuses_for_good(error)
                    if lasting or now + pause > self._refused_since + self._switchover:
                        raise
                    await trio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads load, guards nothing
                    pause = min(2 * pause, _LONGEST_PAUSE)
                except trio.Cancelled:
                    if trio.current_time() >= began + _TRYING:
                        self._trouble()
                    raise
                else:
                    self._refused_since = self._troubled_since = None
                    return connection, None
                finally:
                    self._searches.discard(search)

    async def _connect_to(self, conninfo: str) -> Connection:
        return await Connection.connect(conninfo, fallback_application_name=self._application_name, patience=self._timeout)


def _state(error: BaseException | None) -> str | None:
    return error.sqlstate if isinstance(error, psycopg.Error) else None


async def _clean(connection: Connection) -> None:
    """Roll back, once, the transaction that a block left open. A connection in any other state is closed."""
    with trio.CancelScope(shield=True, relative_deadline=LAST_WORD), suppress(psycopg.Error):
        if connection.autocommit and connection.pgconn.transaction_status in _OPEN and not connection.lock.locked():
            await connection.rollback()
    if not connection.settled() or not connection.autocommit:
        connection.abort()
