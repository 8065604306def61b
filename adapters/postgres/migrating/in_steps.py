"""Carries out the steps of a migration outside a transaction, so that no request waits for it."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

import psycopg
import trio
from psycopg import errors, sql
from psycopg.rows import class_row

from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrating.forecast import blocking, rows_of
from adapters.postgres.migrating.steps import Batches, BuildIndex, DropIndex, Step, Validate
from core.frozen import Frozen
from ports.jobs import ProgressDisplay


@asynccontextmanager
async def beside(work: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Does the work until the body is done."""
    failure: psycopg.Error | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        try:
            yield
        except psycopg.Error as error:
            # Raised below, since the nursery would wrap it into a group.
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


# Others wait for the rows of a batch until its end, so it grows and shrinks towards this time.
BATCH_TIME: Final = 0.2
FIRST_BATCH: Final = 500
LARGEST_BATCH: Final = 20_000
# A batch that waits for a row holds others meanwhile.
LOCK_TIMEOUT: Final = "400ms"
# How often in a row a batch gives way to others before the migration gives up, and how long it pauses each time.
MOST_YIELDS: Final = 60
YIELD_PAUSE: Final = 1.0
LOOK_EVERY: Final = 1.0
# Waiting shorter than this is not worth a line.
_SAID_AFTER: Final = 3

Report = Callable[[str], None]


class BegunOtherwise(Exception):
    """Some steps of this migration were carried out in another form of its file."""


class KeptBusy(Exception):
    """Others held rows of each batch, again and again."""


class _Begun(Frozen):
    step: int
    checksum: str
    reached: str | None
    rows: int
    is_done: bool


class _Part(Frozen):
    first: str
    last: str
    rows: int


class _Index(Frozen):
    is_valid: bool


class _Building(Frozen):
    """Some phases count blocks of the table, others its rows."""

    phase: str
    blocks: int
    total: int | None
    done: int


async def done_of(connection: Connection, migration: int) -> Mapping[int, int | None]:
    """How many rows each begun step of the migration has changed, by the number of the step. None: the step is done."""
    if await (await connection.execute("select to_regclass('schema_migration_steps') is null")).fetchone() == (True,):
        return {}
    cursor = connection.cursor(row_factory=class_row(_Begun))
    begun = await (await cursor.execute(_BEGUN, {"migration": migration})).fetchall()
    return {one.step: None if one.is_done else one.rows for one in begun}


class Steps(Frozen):
    """`connection` holds the lock of whoever migrates. `conninfo` is for a second connection, which looks how far a step is.

    Each step, and each batch, is remembered as soon as it is done: a migration that was interrupted resumes there.
    """

    connection: Connection
    conninfo: str
    migration: int
    checksum: str
    report: Report
    progress: ProgressDisplay

    async def carry_out(self, steps: Sequence[Step]) -> None:
        """Raises `psycopg.Error`, `BegunOtherwise`, `KeptBusy`. What is done stays done."""
        await self.connection.execute(_TABLE)
        begun = await self._begun()
        for number, step in enumerate(steps, start=1):
            known = begun.get(number)
            if known is not None and known.is_done:
                continue
            self.report(f"Step {number} of {len(steps)} {step} …")
            match step:
                case BuildIndex():
                    await self._build(step)
                case Batches():
                    await self._batches(number, step, known)
                    continue
                case DropIndex() | Validate():
                    await self._watched(step.statement)
            await self.connection.execute(_DONE, self._place(number))

    async def forget(self) -> None:
        """Removes what was remembered, in the transaction that records the migration as applied."""
        await self.connection.execute("drop table if exists schema_migration_steps")

    def _place(self, step: int) -> dict[str, object]:
        return {"migration": self.migration, "step": step, "checksum": self.checksum}

    async def _begun(self) -> dict[int, _Begun]:
        cursor = self.connection.cursor(row_factory=class_row(_Begun))
        begun = await (await cursor.execute(_BEGUN, {"migration": self.migration})).fetchall()
        if any(one.checksum != self.checksum for one in begun):
            raise BegunOtherwise
        return {one.step: one for one in begun}

    async def _build(self, step: BuildIndex) -> None:
        """An index whose building was cut off is there, slows writes down and serves nobody."""
        cursor = self.connection.cursor(row_factory=class_row(_Index))
        there = await (await cursor.execute(_INDEX, {"name": step.name})).fetchone()
        if there is not None and there.is_valid:
            return
        if there is not None:
            self.report(f"Removing what an interrupted try left of {step.name} …")
            await self._drop(step)
        try:
            if parts := await self._parts(step.table):
                await self._build_in_parts(step, parts)
            else:
                await self._watched(step.statement, step.name)
        except psycopg.Error:
            # An index that others' rows contradict would go on refusing rows. Without a connection, the next try removes it.
            if not self.connection.closed:
                await self._drop(step)
            raise

    async def _parts(self, table: str) -> Sequence[tuple[str, str]]:
        """The parts of a table that is cut, each by its schema and name. PostgreSQL cannot index the whole while others write."""
        return await (await self.connection.execute(_PARTS, {"table": table})).fetchall()

    async def _build_in_parts(self, step: BuildIndex, parts: Sequence[tuple[str, str]]) -> None:
        """The index of the whole is a frame, into which the index of each part is put. With the last, it counts. A part that is made
        meanwhile gets its index with the frame.
        """
        beginning, _, form = step.statement.partition(f"on {step.table}")
        unique = sql.SQL("unique" if beginning.startswith("create unique") else "")
        names: dict[str, sql.Composable] = {"unique": unique, "whole": sql.Identifier(step.name), "table": sql.Identifier(step.table)}
        await self._briefly(sql.SQL("create {unique} index {whole} on only {table}").format(**names), form)
        for number, (schema, part) in enumerate(parts, start=1):
            name = f"{step.name}_{number}"
            names |= {"part": sql.Identifier(schema, part), "name": sql.Identifier(name), "index": sql.Identifier(schema, name)}
            await self._watched(sql.SQL("drop index concurrently if exists {index}").format(**names).as_string(self.connection))
            building = sql.SQL("create {unique} index concurrently {name} on {part}").format(**names)
            await self._watched(building.as_string(self.connection) + form, name)
            await self._briefly(sql.SQL("alter index {whole} attach partition {index}").format(**names))

    async def _briefly(self, statement: sql.Composed, rest: str = "") -> None:
        """Runs a statement that takes no time and a lock that others would wait behind, so it gives way to them."""
        text = (statement.as_string(self.connection) + rest).encode()
        for _ in range(MOST_YIELDS):
            try:
                async with self.connection.transaction():
                    await self.connection.execute("select set_config('lock_timeout', %(timeout)s, true)", {"timeout": LOCK_TIMEOUT})
                    await self.connection.execute(text)
            except errors.LockNotAvailable:
                await trio.sleep(YIELD_PAUSE)
            else:
                return
        raise KeptBusy

    async def _drop(self, step: BuildIndex) -> None:
        names: dict[str, sql.Composable] = {"name": sql.Identifier(step.name)}
        if await self._parts(step.table):
            # The finished parts go with the frame.
            await self._briefly(sql.SQL("drop index if exists {name}").format(**names))
        else:
            await self._watched(sql.SQL("drop index concurrently if exists {name}").format(**names).as_string(self.connection))

    async def _watched(self, statement: str, index: str | None = None) -> None:
        """Runs a statement that nobody waits for, but that may wait for others, and tells how far it is."""
        # Others do not queue behind these statements, so they may wait for as long as it takes.
        await self.connection.execute("select set_config('lock_timeout', '0', false)")
        async with beside(partial(self._look_on, index)):
            await self.connection.execute(statement.encode())

    async def _look_on(self, index: str | None) -> None:
        # Whoever only looks must not end the work: the server may have no connection left.
        with suppress(psycopg.Error):
            async with await Connection.connect(self.conninfo) as other:
                await self._tell(other, index)

    async def _tell(self, other: Connection, index: str | None) -> None:
        waits: Counter[int | None] = Counter()
        while True:
            # Each phase has a count of its own, so it has its own bar.
            found = await self._building(other)
            with self.progress(_title(index, found), found.total if found is not None else None, _unit(found)) as advance:
                phase, done = found and found.phase, 0
                while (found and found.phase) == phase:
                    now = found.done if found is not None else 0
                    advance(max(now - done, 0))
                    done = max(now, done)
                    for one in await blocking(other, self.connection.backend):
                        waits[one.pid] += 1
                        if waits[one.pid] == _SAID_AFTER:
                            self.report(f"It waits for the end of {one}. Nobody else waits.")
                    await trio.sleep(LOOK_EVERY)
                    found = await self._building(other)

    async def _building(self, other: Connection) -> _Building | None:
        cursor = other.cursor(row_factory=class_row(_Building))
        return await (await cursor.execute(_BUILDING, {"pid": self.connection.backend})).fetchone()

    async def _batches(self, number: int, step: Batches, known: _Begun | None) -> None:
        reached, done = (known.reached, known.rows) if known is not None else (None, 0)
        size, yields = FIRST_BATCH, 0
        total = (await rows_of(self.connection, [step.table])).get(step.table)
        with self.progress(f"Changing {step.table}", total, "rows") as advance:
            advance(done)
            while True:
                began = trio.current_time()
                try:
                    part = await self._batch(number, step, reached, size)
                except (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure):
                    yields += 1
                    if yields > MOST_YIELDS:
                        raise KeptBusy from None
                    size = max(size // 2, 1)
                    advance(0)
                    await trio.sleep(YIELD_PAUSE)
                    continue
                yields = 0
                if part is not None:
                    reached = part.last
                    advance(part.rows)
                # Rows that people add meanwhile would keep it going for ever. The release that brings the migration fills them itself.
                if part is None or part.rows < size:
                    return
                took = trio.current_time() - began
                size = _next_size(size, took)
                # Half of the time belongs to everybody else.
                await trio.sleep(min(took, 1.0))

    async def _batch(self, number: int, step: Batches, reached: str | None, size: int) -> _Part | None:
        """None when there are no further rows. The step is done with the first part that is not full."""
        async with self.connection.transaction():
            await self.connection.execute("select set_config('lock_timeout', %(timeout)s, true)", {"timeout": LOCK_TIMEOUT})
            cursor = self.connection.cursor(row_factory=class_row(_Part))
            part = await (await cursor.execute(_part(step, reached), {"reached": reached, "size": size})).fetchone()
            if part is None:
                await self.connection.execute(_DONE, self._place(number))
                return None
            await self.connection.execute(step.statement.encode(), {"first": part.first, "last": part.last})
            place = {**self._place(number), "reached": part.last, "rows": part.rows}
            await self.connection.execute(_REACHED, place)
            if part.rows < size:
                await self.connection.execute(_DONE, self._place(number))
            return part


def _next_size(size: int, took: float) -> int:
    if took > BATCH_TIME:
        return max(size // 2, 1)
    return min(size * 2, LARGEST_BATCH) if took < BATCH_TIME / 2 else size


def _title(index: str | None, found: _Building | None) -> str:
    if index is None:
        return "Checking"
    return f"Building {index}" if found is None else f"Building {index}, {found.phase}"


def _unit(found: _Building | None) -> str:
    return "blocks" if found is not None and found.blocks else "rows"


def _part(step: Batches, reached: str | None) -> sql.Composed:
    """The keys between which the next rows lie. Without a condition, the plan for the first part stays simple."""
    names: dict[str, sql.Composable] = {"key": sql.Identifier(step.key), "table": sql.Identifier(step.table)}
    names["after"] = sql.SQL("where {key} > %(reached)s").format(**names) if reached is not None else sql.SQL("")
    return sql.SQL(_PART).format(**names)


_PART: Final = """
    with part as materialized (select {key} as key from {table} {after} order by {key} limit %(size)s)
    select (select key::text from part order by key limit 1) as first, (select key::text from part order by key desc limit 1) as last,
           (select count(*) from part) as rows
     where exists (select from part)
"""

# It is there only while a migration of this kind is under way, so it belongs to no schema that a release knows.
_TABLE: Final = """
    create table if not exists schema_migration_steps (
        migration integer not null,
        step      integer not null,
        checksum  text    not null,                    -- of the file that was begun
        reached   text,                                -- the last key of the last batch
        rows      bigint  not null default 0,
        is_done   boolean not null,
        primary key (migration, step)
    )
"""

_BEGUN: Final = "select step, checksum, reached, rows, is_done from schema_migration_steps where migration = %(migration)s"

_DONE: Final = """
    insert into schema_migration_steps (migration, step, checksum, is_done) values (%(migration)s, %(step)s, %(checksum)s, true)
        on conflict (migration, step) do update set is_done = true
"""

_REACHED: Final = """
    insert into schema_migration_steps as known (migration, step, checksum, reached, rows, is_done)
    values (%(migration)s, %(step)s, %(checksum)s, %(reached)s, %(rows)s, false)
        on conflict (migration, step) do update set reached = excluded.reached, rows = known.rows + excluded.rows
"""

_INDEX: Final = """
    select indisvalid as is_valid
      from pg_index
      join pg_class on pg_class.oid = indexrelid
     where relname = %(name)s and relnamespace = current_schema()::regnamespace
"""

_PARTS: Final = """
    select nspname::text, part.relname::text
      from pg_inherits
      join pg_class as part on part.oid = inhrelid
      join pg_namespace on pg_namespace.oid = part.relnamespace
     where inhparent = to_regclass(%(table)s) and part.relispartition
     order by part.relname
"""

_BUILDING: Final = """
    select phase, blocks_total as blocks, nullif(case when blocks_total > 0 then blocks_total else tuples_total end, 0) as total,
           case when blocks_total > 0 then blocks_done else tuples_done end as done
      from pg_stat_progress_create_index
     where pid = %(pid)s
"""
