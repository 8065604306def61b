"""The database as a whole."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import trio

from adapters.postgres.failures import translated
from adapters.postgres.pool import Pool
from adapters.postgres.statements import ask
from core.domain.errors import RetryLater
from ports.metrics import PoolState, Population

PING_DEADLINE: Final = 1.0

# Up to here users are counted one by one, some ten milliseconds; beyond, the planner's estimate is near enough for a gauge.
COUNTED_EXACTLY: Final = 100_000


@dataclass(frozen=True, slots=True)
class _Time:
    now: datetime


@dataclass(frozen=True, slots=True)
class _Users:
    counted: int
    estimated: float


class PostgresDatabase:
    """Implements `ports.database.Database`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def ping(self) -> bool:
        with trio.move_on_after(PING_DEADLINE):
            try:
                with translated():
                    async with self._pool.connection() as connection:
                        # When the deadline cuts in, the connection is closed at once, instead of being given time.
                        recovery, connection.recovery = connection.recovery, 0
                        try:
                            await connection.execute(_PING, prepare=True)
                        finally:
                            connection.recovery = recovery
                        return True
            except RetryLater:
                return False
        return False

    async def clock(self) -> datetime:
        (time,) = await ask(self._pool, _Time, _CLOCK)
        return time.now

    async def population(self) -> Population:
        (users,) = await ask(self._pool, _Users, _USERS, {"most": COUNTED_EXACTLY})
        active = users.counted if users.counted < COUNTED_EXACTLY else max(users.counted, round(users.estimated))
        return Population(active_users=active, organizations=0, mfa_enabled_users=0)

    def pool_state(self) -> PoolState:
        statistics = self._pool.statistics()
        return PoolState(
            connections=statistics.connections + statistics.opening, idle=statistics.idle, most=statistics.most, waiting=statistics.waiting
        )


_PING: Final = "select 1"

_CLOCK: Final = "select clock_timestamp() as now"

# The estimate takes away what the statistics know of deactivated users.
_USERS: Final = """
    select (select count(*) from (select from users where deactivated_at is null limit %(most)s) as capped) as counted,
           (select reltuples * coalesce((select null_frac
                                           from pg_stats
                                          where schemaname = current_schema and tablename = 'users' and attname = 'deactivated_at'), 1)
              from pg_class
             where oid = 'users'::regclass) as estimated
"""
