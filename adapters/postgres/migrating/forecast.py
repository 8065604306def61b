"""Forecasts what a migration will do to this database: its effects, what it waits for, and how long it takes."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import trio
from psycopg.rows import class_row

from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrating.steps import Batches, BuildIndex, DropIndex, Step, Validate
from core.frozen import Frozen


class LockMode(StrEnum):
    """PostgreSQL's locks on tables, the weakest first."""

    ACCESS_SHARE = "access share"
    ROW_SHARE = "row share"
    ROW_EXCLUSIVE = "row exclusive"
    SHARE_UPDATE_EXCLUSIVE = "share update exclusive"
    SHARE = "share"
    SHARE_ROW_EXCLUSIVE = "share row exclusive"
    EXCLUSIVE = "exclusive"
    ACCESS_EXCLUSIVE = "access exclusive"

    @classmethod
    def of_catalogue(cls, name: str) -> "LockMode":
        """`AccessShareLock` is how pg_locks writes it."""
        return next(mode for mode in cls if f"{mode.value.title().replace(' ', '')}Lock" == name)

    @property
    def strength(self) -> int:
        return list(LockMode).index(self)

    @property
    def stops(self) -> str:
        """What nobody else can do on the table meanwhile, in words for the operator. Empty if people notice nothing."""
        if self is LockMode.ACCESS_EXCLUSIVE:
            return "nobody reads or writes it"
        return "nobody writes it" if self.strength >= LockMode.SHARE.strength else ""

    def conflicts_with(self, other: "LockMode") -> bool:
        return other in _CONFLICTS[self]


_ALL: Final = frozenset(LockMode)
_CONFLICTS: Final[Mapping[LockMode, frozenset[LockMode]]] = {
    LockMode.ACCESS_SHARE: frozenset({LockMode.ACCESS_EXCLUSIVE}),
    LockMode.ROW_SHARE: frozenset({LockMode.EXCLUSIVE, LockMode.ACCESS_EXCLUSIVE}),
    LockMode.ROW_EXCLUSIVE: frozenset(mode for mode in LockMode if mode.strength >= LockMode.SHARE.strength),
    LockMode.SHARE_UPDATE_EXCLUSIVE: frozenset(mode for mode in LockMode if mode.strength >= LockMode.SHARE_UPDATE_EXCLUSIVE.strength),
    LockMode.SHARE: _ALL - {LockMode.ACCESS_SHARE, LockMode.ROW_SHARE, LockMode.SHARE},
    LockMode.SHARE_ROW_EXCLUSIVE: _ALL - {LockMode.ACCESS_SHARE, LockMode.ROW_SHARE},
    LockMode.EXCLUSIVE: _ALL - {LockMode.ACCESS_SHARE},
    LockMode.ACCESS_EXCLUSIVE: _ALL,
}


class Effect(Frozen):
    """What a migration does to one table that exists. Effects are not written by hand: `adapters/postgres/migrating/observation.py` runs
    each migration and observes PostgreSQL, and `migrations/effects.toml` stores the result, since a database in use must not be tried out.
    `reads`: all its rows, or as many as a condition leaves. `indexes`: how many are built.
    """

    table: str
    lock: LockMode
    reads: bool = False
    rewrites: bool = False
    changes: bool = False
    indexes: int = 0


def read_effects(text: str) -> Mapping[str, Sequence[Effect]]:
    """The effects by the migration's name, such as `0052_mailed_codes`."""
    return {name: tuple(_effect(table, words) for table, words in tables.items()) for name, tables in tomllib.loads(text).items()}


def _effect(table: str, words: Mapping[str, Any]) -> Effect:
    return Effect(table, **{**words, "lock": LockMode(words["lock"])})


def written_effects(effects: Mapping[str, Sequence[Effect]]) -> str:
    """The text that `read` reads."""
    lines = ["# What each migration does to tables that are there before it. `python -m ops.written.migration_effects` writes this file."]
    for name, of_one in effects.items():
        lines += ["", f"[{name}]", *(_line(effect) for effect in of_one)]
    return "\n".join(lines) + "\n"


def _line(effect: Effect) -> str:
    words = [f'lock = "{effect.lock}"']
    words += [f"{name} = true" for name in ("reads", "rewrites", "changes") if getattr(effect, name)]
    if effect.indexes:
        words.append(f"indexes = {effect.indexes}")
    return f"{effect.table} = {{ {', '.join(words)} }}"


# Seconds. Requests hold a table for a shorter time.
OLD: Final = 0.3


class LongTransaction(Frozen):
    """A transaction that a migration would wait for, in words for the operator. Never its statements, which may carry personal data.

    A transaction. `age` is in seconds, and None if our role may not know it. Without `tables`, only the building of an index waits.
    """

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


# Rows in a second. Measured on sign-ins, whose table has six indexes, on two processors that had much else to do.
READ: Final = 1_500_000
INDEXED: Final = 250_000
REWRITTEN: Final = 50_000
CHANGED: Final = 20_000
# In batches, with the pauses between them.
CHANGED_IN_BATCHES: Final = 6_000
# `create index concurrently` reads the table twice and waits for transactions.
INDEXED_CONCURRENTLY: Final = 200_000
_SPEED: Final[Mapping[type[Step], float]] = {
    BuildIndex: INDEXED_CONCURRENTLY,
    Batches: CHANGED_IN_BATCHES,
    Validate: READ,
    DropIndex: math.inf,
}


class Part(Frozen):
    """What a migration does to one table. `stops`: what others cannot do on the table meanwhile; empty if they notice nothing."""

    table: str
    what: str
    seconds: float
    stops: str = ""


class Forecast(Frozen):
    """`together`: all parts are one transaction, so each table stays locked until the end of the last part."""

    parts: Sequence[Part]
    together: bool

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)

    @property
    def stops_for(self) -> float:
        """For how many seconds somebody has to wait for a table, after the migration has its locks."""
        return self.seconds if self.together and any(part.stops for part in self.parts) else 0.0


def forecast(
    effects: Sequence[Effect], steps: Sequence[Step], rows: Mapping[str, int], done: Mapping[int, int | None] | None = None
) -> Forecast:
    """Estimates how long a migration takes on this database: the rows of its tables, divided by what a small and busy server does in a
    second. It tells seconds from hours, and rather too much than too little.

    `rows` has the tables that are there. Tables that come with an earlier migration are empty, so nothing is said of them. `done` says of
    an interrupted migration how many rows a step has changed, by its number, and None if the step is done.
    """
    if steps:
        known = done or {}
        left = [(step, known.get(number, 0)) for number, step in enumerate(steps, start=1)]
        return Forecast([_of_step(step, max(rows.get(step.table, 0) - of, 0)) for step, of in left if of is not None], together=False)
    there = [effect for effect in effects if effect.table in rows]
    return Forecast([_of_effect(effect, rows[effect.table]) for effect in there], together=True)


def _of_effect(effect: Effect, rows: int) -> Part:
    does = []
    seconds = 0.0
    if effect.rewrites:
        does.append("rewrites the table")
        seconds += rows / REWRITTEN
    if effect.changes:
        does.append("may change all rows")
        seconds += rows / CHANGED
    if effect.indexes:
        does.append("builds an index" if effect.indexes == 1 else f"builds {effect.indexes} indexes")
        seconds += effect.indexes * rows / INDEXED
    if effect.reads and not does:
        does.append("reads all rows")
        seconds += rows / READ
    if effect.lock.strength > effect.lock.ROW_EXCLUSIVE.strength:
        does.insert(0, f"{effect.lock} lock")
    return Part(effect.table, f"{', '.join(does)} ({_counted(rows)})", seconds, effect.lock.stops)


def _of_step(step: Step, rows: int) -> Part:
    return Part(step.table, f"{step} ({_counted(rows)})", rows / _SPEED[type(step)])


def _counted(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows".replace(",", " ")


def lines(forecast: Forecast) -> Sequence[str]:
    """Lines for the operator."""
    lines = []
    for part in forecast.parts:
        stop = ""
        if part.stops:
            stop = f"; {part.stops} " + (f"for about {duration(forecast.seconds)}" if forecast.seconds >= 1 else "for a moment")
        lines.append(f"{part.table}: {part.what}{stop}")
    if forecast.parts:
        disturbed = " Nobody waits for it." if not forecast.together else ""
        time = f"about {duration(forecast.seconds)}" if forecast.seconds >= 1 else "less than a second"
        lines.append(f"takes {time}.{disturbed}")
    return lines


class _Size(Frozen):
    table: str
    rows: int


async def rows_of(connection: Connection, tables: Sequence[str]) -> Mapping[str, int]:
    """About how many rows each of these tables has, as far as the table is there. Costs nothing: nobody counts."""
    found = await (await connection.cursor(row_factory=class_row(_Size)).execute(_SIZES, {"tables": list(tables)})).fetchall()
    return {size.table: size.rows for size in found}


# The planner's estimate, scaled by how far the table has grown since. Of a table that was never analyzed, the server may know by its own
# counting; else a row is taken for 200 bytes. A table in parts has the rows of its parts.
_SIZES: Final = """
    select whole.relname::text as table,
           sum(case
                   when part.reltuples >= 0 and part.relpages > 0 then part.reltuples / part.relpages * pages
                   when n_live_tup > 0 then n_live_tup
                   else pages * 40
               end)::bigint as rows
      from pg_class as whole
      join pg_class as part on coalesce(pg_partition_root(part.oid), part.oid) = whole.oid
      join pg_stat_all_tables on relid = part.oid,
           lateral (select pg_relation_size(part.oid) / current_setting('block_size')::integer as pages) as size
     where whole.relnamespace = current_schema()::regnamespace and part.relkind = 'r' and whole.relname = any(%(tables)s)
     group by whole.relname
"""
