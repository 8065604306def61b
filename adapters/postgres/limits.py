"""How many connections the server has room for, and how many of our processes share them."""

from typing import Final

from psycopg.rows import class_row

from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.listener import APPLICATION_NAME
from core.frozen import Frozen


class ConnectionLimits(Frozen):
    room: int
    """How many connections this role may have in this database, including those that are open."""
    processes: int
    """How many processes serve right now, on all machines."""


async def connection_limits(conninfo: str) -> ConnectionLimits:
    async with await Connection.connect(conninfo) as connection:
        cursor = connection.cursor(row_factory=class_row(ConnectionLimits))
        (limits,) = await (await cursor.execute(_LIMITS, {"listener": APPLICATION_NAME})).fetchall()
        return limits


# Each process listens on one connection. Some connections are reserved for superusers, and from PostgreSQL 16 on for another role too. A
# limit of -1 means no limit.
_LIMITS: Final = """
    select (select min(most)
              from (values (current_setting('max_connections')::integer
                            - current_setting('superuser_reserved_connections')::integer
                            - coalesce(current_setting('reserved_connections', true)::integer, 0)),
                           ((select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user)),
                           ((select nullif(datconnlimit, -1) from pg_database where datname = current_database()))) as limits (most)
           ) as room,
           (select count(*)::integer
              from pg_stat_activity
             where datname = current_database()
               and (application_name = %(listener)s or starts_with(application_name, %(listener)s || ' '))) as processes
"""
