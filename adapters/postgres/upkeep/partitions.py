"""Tables that are cut by month. The functions of the schema know the parts, and run as the owner of the tables (`schema.sql`)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask, ask_in_order, only
from core.frozen import Frozen
from ports.database import Partitions
from ports.system import Clock

# A server that nobody starts for so long still finds parts to write to. Later rows go to the part of the rest.
MONTHS_AHEAD: Final = 3


class _Ahead(Frozen):
    ahead: timedelta


class PostgresPartitions:
    """Implements `ports.database.Partitions` for one table."""

    def __init__(self, pool: Pool, clock: Clock, table: str, retention: timedelta) -> None:
        self.table = table
        self._pool = pool
        self._clock = clock
        self._retention = retention

    async def make(self) -> Sequence[str]:
        return await ask_in_order(self._pool, str, _MAKE, {"table": self.table, "months": MONTHS_AHEAD})

    async def drop(self, up: timedelta) -> Sequence[str]:
        parameters = {"table": self.table, "retention": self._retention, "up": up, "now": self._clock.now()}
        return await ask_in_order(self._pool, str, _DROP, parameters)

    async def in_the_way(self) -> Sequence[str]:
        return await ask_in_order(self._pool, str, _IN_THE_WAY, {"table": self.table, "months": MONTHS_AHEAD})

    async def ahead(self) -> timedelta:
        return only(await ask(self._pool, _Ahead, _AHEAD, {"table": self.table})).ahead


def partitions(
    pool: Pool, clock: Clock, *, login_event_retention: timedelta, delivery_retention: timedelta, event_retention: timedelta
) -> tuple[Partitions, ...]:
    """Deliveries come before events: a month of events stays while a delivery tells one of them. So they are kept as long as deliveries."""
    return (
        PostgresPartitions(pool, clock, "login_events", login_event_retention),
        PostgresPartitions(pool, clock, "webhook_deliveries", delivery_retention),
        PostgresPartitions(pool, clock, "events", max(event_retention, delivery_retention)),
    )


_MAKE: Final = "select make_partitions(%(table)s, %(months)s) as name"
_DROP: Final = "select drop_partitions(%(table)s, %(retention)s::interval, %(up)s::interval, %(now)s::timestamptz) as name"
_IN_THE_WAY: Final = "select partitions_in_the_way(%(table)s, %(months)s) as name"

# Until the first moment that no part holds. An id begins with the milliseconds of its moment.
_AHEAD: Final = """
    with parts as materialized (select * from partitions_of(%(table)s) where not is_rest)
  select coalesce(
             to_timestamp(('x' || left(replace(min(last::text), '-', ''), 12))::bit(48)::bigint / 1000.0) - now(), '0'
         ) as ahead
    from parts
   where last > first_id_of(now())
     and exists (select from parts as one where (one.first is null or one.first <= first_id_of(now())) and one.last > first_id_of(now()))
     and not exists (select from parts as next where next.first = parts.last)
"""
