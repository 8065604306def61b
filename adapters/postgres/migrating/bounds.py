"""The bound under which the rows of a table lie that is about to be cut by month. Between the migration that sets the bound and the one
that cuts, PostgreSQL refuses all rows above it: whoever stops in between has to know until when.
"""

from datetime import datetime
from typing import Final

from adapters.postgres.driver.connection import Connection


async def bound_of(connection: Connection) -> datetime | None:
    """None: no table has a bound."""
    row = await (await connection.execute(_BOUND)).fetchone()
    return None if row is None else row[0]


# An id begins with the milliseconds of its moment.
_BOUND: Final = """
    select min(to_timestamp(
               ('x' || left(replace(substring(pg_get_constraintdef(oid) from '[0-9a-f-]{36}'), '-', ''), 12))::bit(48)::bigint / 1000.0
           ))
      from pg_constraint
     where contype = 'c' and conrelid in (to_regclass('login_events'), to_regclass('events'), to_regclass('webhook_deliveries'))
       and conname in ('login_events_past', 'events_past', 'webhook_deliveries_past')
"""
