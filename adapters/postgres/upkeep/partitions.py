"""Tables that are cut by month. The functions of the schema know the parts, and run as the owner of the tables (`schema.sql`)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask
from core.frozen import Frozen
from ports.database import Partitions

# A server that nobody starts for so long still finds parts to write to. Later rows go to the part of the rest.
MONTHS_AHEAD: Final = 3


class _Named(Frozen):
    name: str


class _Ahead(Frozen):
    ahead: timedelta


class PostgresPartitions:
    """Implements `ports.database.Partitions` for one table."""

    def __init__(self, pool: Pool, table: str, retention: timedelta) -> None:
        self.table = table
        self._pool = pool
        self._retention = retention

    async def make(self) -> Sequence[str]:
        made = await ask(self._pool, _Named, _MAKE, {"table": self.table, "months": MONTHS_AHEAD})
        return [one.name for one in made]

    async def drop(self) -> Sequence[str]:
        dropped = await ask(self._pool, _Named, _DROP, {"table": self.table, "retention": self._retention})
        return [one.name for one in dropped]

    async def ahead(self) -> timedelta:
        (found,) = await ask(self._pool, _Ahead, _AHEAD, {"table": self.table})
        return found.ahead


def partitions(
    pool: Pool, *, login_event_retention: timedelta, delivery_retention: timedelta, event_retention: timedelta
) -> tuple[Partitions, ...]:
    """Deliveries come before events: a month of events stays while a delivery tells one of them. So they are kept as long as deliveries."""
    return (
        PostgresPartitions(pool, "login_events", login_event_retention),
        PostgresPartitions(pool, "webhook_deliveries", delivery_retention),
        PostgresPartitions(pool, "events", max(event_retention, delivery_retention)),
    )


_MAKE: Final = "select make_partitions(%(table)s, %(months)s) as name"
_DROP: Final = "select drop_partitions(%(table)s, %(retention)s::interval) as name"

# An id begins with the milliseconds of its moment.
_AHEAD: Final = """
    select greatest(to_timestamp(max(('x' || left(replace(last::text, '-', ''), 12))::bit(48)::bigint) / 1000.0) - now(), '0') as ahead
      from partitions_of(%(table)s)
"""
