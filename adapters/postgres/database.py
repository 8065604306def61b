"""The database as a whole."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, LiteralString

import psycopg
import trio

from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.driver.lookout import Lookout, SeenHost
from adapters.postgres.driver.pool import Pool
from adapters.postgres.driver.watch import Watch
from adapters.postgres.failures import translated
from adapters.postgres.statements import ask, only
from adapters.postgres.writes import READ_ONLY, Writes
from core.domain.errors import RetryLater
from core.frozen import Frozen
from ports.metrics import DatabaseHost, PoolState, Population
from ports.system import Clock

PING_DEADLINE: Final = 1.0

# Rows are counted one by one up to this number. Beyond it, the planner's estimate is good enough for a gauge.
COUNTED_EXACTLY: Final = 100_000


class _Doubt(Frozen):
    doubt: str | None


class _Count(Frozen):
    counted: int
    estimated: float


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

    async def population(self) -> Population:
        return Population(
            active_users=await self._count(ACTIVE_USERS),
            organizations=await self._count(_ORGANIZATIONS),
            mfa_enabled_users=await self._count(MFA_ENABLED_USERS),
        )

    async def _count(self, statement: LiteralString) -> int:
        (count,) = await ask(self._pool, _Count, statement, {"most": COUNTED_EXACTLY})
        return count_or_estimate(count.counted, count.estimated)

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

_ORGANIZATIONS: Final = """
    select (select count(*) from (select from organizations limit %(most)s) as capped) as counted,
           (select reltuples from pg_class where oid = 'all_organizations'::regclass) as estimated
"""
