"""The database as a whole: whether it responds and accepts writes, and how many connections it has room for."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import psycopg
import structlog
import trio
from psycopg.rows import class_row

from adapters.postgres.driver.connection import Connection, TripCounter, round_trips
from adapters.postgres.driver.lookout import Lookout, SeenHost, Watch
from adapters.postgres.driver.pool import Pool, PoolClosed, PoolExhausted
from adapters.postgres.failures import translated
from adapters.postgres.listening_processes import LISTENS, NAME
from adapters.postgres.statements import ask, only
from core.domain.errors import OutcomeUnknown, RetryLater
from core.frozen import Frozen
from ports.metrics import DatabaseHost, PoolState
from ports.system import Clock

log = structlog.get_logger()


# SQLSTATE codes from PostgreSQL's appendix A. Other errors of a write concern only one request, or are bugs.
READ_ONLY: Final = "read only"
# `statement_timeout` or somebody's own hand cuts a statement off. The trial tells whether that is the rule: a trivial query may still be
# quick enough, while hardly any request is.
CUT_OFF: Final = "statement timeout"
REASONS: Final = {"53100": "disk full", "25006": READ_ONLY, "58030": "input or output error", "57014": CUT_OFF}
# A commit waits until a synchronous standby has it. Without one it waits for ever, and nothing refuses it.
UNCONFIRMED_WRITES: Final = "no standby confirms commits"
WRITE_DEADLINE: Final = 1.0
WRITE_PAUSE: Final = 1.0


class Writes:
    """Knows whether the database accepts writes. A successful read does not prove that, because reads still work on a full disk and on a
    standby.

    The pool reports the errors of every request and actor. After an error of `REASONS`, `Writes` tries to write until writes succeed.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # A process that starts on a full disk finds out before it gets its first request.
        self._suspected = True
        self._reason: str | None = None
        self._trying = False
        self._next_try = 0.0
        pool.on_error(self._notice)

    async def failure(self) -> str | None:
        """Why writes fail, as of a second ago at most. None while writes succeed. Never raises."""
        if self._suspected and not self._trying and trio.current_time() >= self._next_try:
            self._trying = True
            try:
                await self._try()
            finally:
                self._trying = False
                self._next_try = trio.current_time() + WRITE_PAUSE
        return self._reason

    def _notice(self, error: BaseException) -> None:
        # Code that uses the pool through `translated` has turned the error into a refusal.
        lost = isinstance(error, OutcomeUnknown)
        if lost or _reason(error) is not None or (error.__cause__ is not None and _reason(error.__cause__) is not None):
            self._suspected = True

    async def _try(self) -> None:
        committing = False
        with trio.move_on_after(WRITE_DEADLINE) as scope:
            try:
                async with self._pool.connection() as connection:
                    async with connection.transaction(force_rollback=True):
                        await connection.execute(_LITTLE_MEMORY)
                        await connection.execute(_TRY)
                    committing = True
                    await connection.execute(_COMMIT)
            except psycopg.Error as error:
                # Any other error, such as an outage, does not say whether writes work.
                self._found(_reason(error) or self._reason, error.diag.message_primary)
            except (PoolExhausted, PoolClosed):
                pass
            else:
                self._found(None, None)
                self._suspected = False
        if scope.cancelled_caught and committing:
            self._found(UNCONFIRMED_WRITES, None)

    def _found(self, reason: str | None, detail: str | None) -> None:
        if reason is not None and self._reason is None:
            log.warning("writes_fail", reason=reason, detail=detail)
        elif reason is None and self._reason is not None:
            log.info("writes_succeed_again", reason=self._reason)
        self._reason = reason


def _reason(error: BaseException) -> str | None:
    return REASONS.get(error.sqlstate or "") if isinstance(error, psycopg.Error) else None


# The trial lasts a twentieth of a second, as an ordinary statement on a busy server does: a server that cuts it off serves nobody.
#
# Writing one row would prove little, because the row may fit into a page that exists already. Instead, the statement makes a megabyte of
# rows with hardly any working memory, so PostgreSQL writes them to a temporary file. The file needs new blocks of the disk, but no
# privilege and no cleaning up. A standby refuses the statement because of its `delete`, although it deletes no row.
_LITTLE_MEMORY: Final = "select set_config('work_mem', '64kB', true)"

_TRY: Final = """
    with nothing as (delete from rate_limit_buckets where false returning 1),
         filling as materialized (select repeat('x', 8000) as filling from generate_series(1, 128))
  select (select count(*) from nothing), count(*), pg_sleep(0.05) from filling
"""

# A transaction of its own that leaves nothing but a word in the write-ahead log, and waits for standbys as every commit does.
_COMMIT: Final = "select pg_logical_emit_message(true, 'postern', '')"


class ConnectionLimits(Frozen):
    room: int
    """How many connections this role may have in this database, including those that are open."""
    processes: int
    """How many processes serve right now, on all machines."""


async def connection_limits(conninfo: str) -> ConnectionLimits:
    async with await Connection.connect(conninfo) as connection:
        cursor = connection.cursor(row_factory=class_row(ConnectionLimits))
        (limits,) = await (await cursor.execute(_LIMITS, NAME)).fetchall()
        return limits


# Each process listens on one connection. Some connections are reserved for superusers, and from PostgreSQL 16 on for another role too. A
# limit of -1 means no limit.
_LIMITS: Final = f"""
    select (select min(most)
              from (values (current_setting('max_connections')::integer
                            - current_setting('superuser_reserved_connections')::integer
                            - coalesce(current_setting('reserved_connections', true)::integer, 0)),
                           ((select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user)),
                           ((select nullif(datconnlimit, -1) from pg_database where datname = current_database()))) as limits (most)
           ) as room,
           (select count(*)::integer
              from pg_stat_activity
             where {LISTENS}) as processes
"""


PING_DEADLINE: Final = 1.0

# Rows are counted one by one up to this number. Beyond it, the planner's estimate is good enough for a gauge.
COUNTED_EXACTLY: Final = 100_000


class _Doubt(Frozen):
    doubt: str | None


class _CountedRoundTrips(TripCounter):
    """Implements `ports.database.RoundTrips`."""

    __slots__ = ("_before",)

    def __init__(self) -> None:
        super().__init__()
        self._before = round_trips.set(self)

    def stop(self) -> None:
        round_trips.reset(self._before)


class PostgresDatabase:
    """Implements `ports.database.Database`."""

    def __init__(self, pool: Pool, clock: Clock, standby_reads: timedelta = timedelta(0)) -> None:
        self._pool = pool
        self._clock = clock
        self._clock_ahead = timedelta(0)
        self._writes = Writes(pool)
        self._watch = Watch(pool)
        self._lookout = Lookout(pool, standby_reads=standby_reads.total_seconds())

    async def ping(self) -> bool:
        with trio.move_on_after(PING_DEADLINE):
            try:
                with translated():
                    async with self._pool.connection() as connection:
                        # When the statement outlasts its deadline, the connection closes at once and has no extra time to finish.
                        recovery, connection.recovery = connection.recovery, 0
                        try:
                            before = self._clock.now()
                            row = await (await connection.execute(_PING, prepare=True)).fetchone()
                            after = self._clock.now()
                        finally:
                            connection.recovery = recovery
                        assert row is not None  # noqa: S101 - for the type checker: such a select has a row
                        theirs: datetime = row[0]
                        # The database read its clock at some moment between our two readings, and the middle is the best guess.
                        self._clock_ahead = before + (after - before) / 2 - theirs
                        return True
            except RetryLater:
                return False
        return False

    async def write_failure(self) -> str | None:
        reason = await self._writes.failure()
        # No trial has an answer while no host may be read.
        return READ_ONLY if reason is None and self._pool.away is not None else reason

    async def look_at_hosts(self) -> Sequence[DatabaseHost]:
        await self._lookout.look()
        return _named(self._lookout.hosts)

    @property
    def hosts_without_writer(self) -> Sequence[DatabaseHost]:
        return _named(self._lookout.hosts) if self._pool.away is not None else ()

    def count_round_trips(self) -> _CountedRoundTrips:
        return _CountedRoundTrips()

    def refused(self, error: Exception) -> bool:
        return isinstance(error, psycopg.Error)

    @property
    def clock_ahead(self) -> timedelta:
        return self._clock_ahead

    async def doubt_of_clock(self) -> str | None:
        return only(await ask(self._pool, _Doubt, _DOUBT, {"now": self._clock.now()})).doubt

    def pool_state(self) -> PoolState:
        statistics = self._pool.statistics()
        return PoolState(
            connections=statistics.connections,
            idle=statistics.idle,
            max_size=statistics.max_size,
            waiting=statistics.waiting,
        )

    async def give_up_hung(self) -> int:
        return await self._watch.look()


def _named(hosts: Sequence[SeenHost]) -> Sequence[DatabaseHost]:
    return tuple(DatabaseHost(host.name, host.state.value) for host in hosts)


def count_or_estimate(counted: int, estimated: float) -> int:
    """The exact count, or the estimate when the count stopped at `COUNTED_EXACTLY`."""
    return counted if counted < COUNTED_EXACTLY else max(counted, round(estimated))


_PING: Final = "select clock_timestamp()"
_DOUBT: Final = "select doubt_of_clock(%(now)s::timestamptz) as doubt"
# Stands in every statement that ends something for its age. The planner asks once for a statement, not for each row.
BELIEVED: Final = "(select doubt_of_clock(null)) is null"

# The estimates subtract what the statistics know about deactivated users and about second factors that still wait for their first code.
ACTIVE_USERS: Final = """
    select (select count(*) from (select from users where deactivated_at is null limit %(most)s) as capped) as counted,
           (select reltuples * coalesce((select null_frac
                                           from pg_stats
                                          where schemaname = current_schema and tablename = 'users' and attname = 'deactivated_at'), 1)
              from pg_class
             where oid = 'users'::regclass) as estimated
"""

# A person counts with an authenticator app, or with passkeys alone. The estimate counts a person with several such passkeys more than once.
MFA_ENABLED_USERS: Final = """
    select (select count(*)
              from (select
                      from (select user_id from mfa_secrets where enabled_at is not null
                             union all
                            select distinct user_id
                              from passkeys
                             where second_factor_since is not null
                               and not exists (
                                       select from mfa_secrets where mfa_secrets.user_id = passkeys.user_id and enabled_at is not null
                                   )) as enabled
                      join users on users.id = enabled.user_id
                     where users.deactivated_at is null
                     limit %(most)s) as capped) as counted,
           (select reltuples * (1 - coalesce((select null_frac
                                                from pg_stats
                                               where schemaname = current_schema and tablename = 'mfa_secrets' and attname = 'enabled_at'),
                                             0))
              from pg_class
             where oid = 'mfa_secrets'::regclass)
         + (select greatest(reltuples, 0) from pg_class where oid = 'passkeys_second_factors'::regclass) as estimated
"""
