"""How long a migration takes on this database, before anybody starts it: the rows of its tables, divided by what a small and busy server
does in a second. It tells seconds from hours, and rather too much than too little.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from psycopg.rows import class_row

from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrating.effects import Effect
from adapters.postgres.migrating.obstacles import duration
from adapters.postgres.migrating.steps import Batches, BuildIndex, DropIndex, Step, Validate
from core.frozen import Frozen

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
    """`rows` has the tables that are there. Tables that come with an earlier migration are empty, so nothing is said of them. `done` says
    of an interrupted migration how many rows a step has changed, by its number, and None if the step is done.
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
