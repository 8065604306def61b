"""Transactions that a migration would wait for, in words for the operator. Never their statements, which may carry personal data."""

from collections.abc import Mapping, Sequence
from typing import Final

import trio
from psycopg.rows import class_row

from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrating.effects import LockMode
from core.frozen import Frozen

# Seconds. Requests hold a table for a shorter time.
OLD: Final = 0.3


class LongTransaction(Frozen):
    """A transaction. `age` is in seconds, and None if our role may not know it. Without `tables`, only the building of an index waits."""

    pid: int | None
    application: str
    state: str
    age: float | None
    tables: Sequence[str] = ()

    @property
    def gives_way(self) -> bool:
        """Whether the server ends it for somebody who waits for it. It does not if the work keeps transaction ids from running out."""
        return self.state == "autovacuum worker"

    def __str__(self) -> str:
        who = "a prepared transaction" if self.pid is None else f"pid {self.pid}"
        name = f' "{_shown(self.application)}"' if self.application else ""
        # Without pg_read_all_stats, a role sees state and age of its own sessions alone.
        since = "of unknown age" if self.age is None else f"for {duration(self.age)}"
        state = f"{self.state}, " if self.state else ""
        holds = f", holds {', '.join(self.tables)}" if self.tables else ""
        return f"{who}{name} ({state}{since}{holds})"


def duration(seconds: float) -> str:
    """Such as 4 s, 3 min, 2 h."""
    if seconds < 1:
        return "less than 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _shown(name: str) -> str:
    """Whoever connects chooses the name, so it may hold what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


class _Seen(Frozen):
    """`transaction` is the server's name for a transaction under way. Everybody may see it, while its age is shown to few roles."""

    pid: int | None
    transaction: str
    application: str
    state: str
    age: float | None
    table: str | None
    mode: str | None


async def obstacles(connection: Connection, wanted: Mapping[str, LockMode], *, everybody: bool = False) -> Sequence[LongTransaction]:
    """The transactions that go on holding one of these tables in a way that conflicts with the wanted lock. `everybody`: also all others in
    the database that go on, because the building of an index waits for them. Takes two looks, if there is anything to see.
    """
    first = await _look(connection, wanted, everybody=everybody)
    if not first:
        return []
    await trio.sleep(OLD)
    stayed = {one.transaction for one in first}
    held: dict[str, list[_Seen]] = {}
    for one in await _look(connection, wanted, everybody=everybody):
        if one.transaction in stayed:
            held.setdefault(one.transaction, []).append(one)
    found = [
        LongTransaction(
            all_of[0].pid, all_of[0].application, all_of[0].state, all_of[0].age, sorted({one.table for one in all_of if one.table})
        )
        for all_of in held.values()
    ]
    return sorted(found, key=lambda one: -(one.age or 0))


async def _look(connection: Connection, wanted: Mapping[str, LockMode], *, everybody: bool) -> Sequence[_Seen]:
    parameters = {"tables": list(wanted), "everybody": everybody}
    seen = await (await connection.cursor(row_factory=class_row(_Seen)).execute(_LOOK, parameters)).fetchall()
    return [
        one for one in seen if one.table is None or one.mode is None or wanted[one.table].conflicts_with(LockMode.of_catalogue(one.mode))
    ]


class _Blocker(Frozen):
    pid: int
    application: str
    state: str
    age: float | None


async def blocking(connection: Connection, pid: int) -> Sequence[LongTransaction]:
    """The transactions that this session waits for at this moment."""
    found = await (await connection.cursor(row_factory=class_row(_Blocker)).execute(_BLOCKING, {"pid": pid})).fetchall()
    return [LongTransaction(one.pid, one.application, one.state, one.age) for one in found]


# Workers of autovacuum have no state, and a prepared transaction no process.
_LOOK: Final = """
    with seen as (
        select pid, virtualtransaction, relname::text as table, mode
          from pg_locks
          join pg_class on pg_class.oid = relation
         where locktype = 'relation' and granted and pg_locks.database = (select oid from pg_database where datname = current_database())
           and relnamespace = current_schema()::regnamespace and relname = any(%(tables)s)
         union
        select pg_locks.pid, virtualtransaction, null, null
          from pg_locks
          join pg_stat_activity on pg_stat_activity.pid = pg_locks.pid
         where %(everybody)s and locktype = 'virtualxid' and granted and datname = current_database() and backend_type = 'client backend'
         union
        select null, '-1/' || transaction, null, null
          from pg_prepared_xacts
         where %(everybody)s and database = current_database()
    )
    select seen.pid, virtualtransaction as transaction, coalesce(application_name, '') as application,
           case when backend_type is distinct from 'client backend' then coalesce(backend_type, '') else coalesce(state, '') end as state,
           extract(epoch from clock_timestamp() - xact_start)::double precision as age, seen.table, mode
      from seen
      left join pg_stat_activity on pg_stat_activity.pid = seen.pid
     where seen.pid is distinct from pg_backend_pid()
"""

_BLOCKING: Final = """
    select pid, coalesce(application_name, '') as application,
           case backend_type when 'client backend' then coalesce(state, '') else coalesce(backend_type, '') end as state,
           extract(epoch from clock_timestamp() - xact_start)::double precision as age
      from pg_stat_activity
     where pid = any(pg_blocking_pids(%(pid)s))
"""
