"""Runs a migration and observes what it does to the tables that exist."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from psycopg.rows import class_row

from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrating.forecast import Effect, LockMode
from core.frozen import Frozen


class _Table(Frozen):
    """`whole` is the table that this one is a part of, or itself."""

    oid: int
    whole: int
    name: str
    file: int
    indexes: Sequence[int]


class _Lock(Frozen):
    oid: int
    mode: str


class _Scans(Frozen):
    oid: int
    scans: int


async def observed(connection: Connection, sql: str) -> Sequence[Effect]:
    """Runs the migration in a transaction, and commits. The connection must be new, since the server counts reads for each session.

    PostgreSQL itself tells which locks it took, which tables it read, and which it rewrote. A reader of SQL could only guess that from the
    words, and would not look into functions and `do` blocks. The tables are empty here. What a migration does to rows only shows as a lock
    that such changes take, so it counts as changing all of them.
    """
    async with connection.transaction():
        before = await _tables(connection)
        await connection.execute(sql.encode())
        locks = await _locks(connection)
        after = await _tables(connection)
        scanned = {row.oid for row in await (await connection.cursor(row_factory=class_row(_Scans)).execute(_SCANS)).fetchall()}
    # What is done to a part is done to its table.
    rewritten = {table.whole for oid, table in before.items() if oid in after and after[oid].file != table.file}
    read = {before[oid].whole for oid in scanned & before.keys()}
    held: dict[int, set[LockMode]] = defaultdict(set)
    for oid, modes in locks.items():
        held[before[oid].whole if oid in before else oid] |= modes
    return [
        Effect(
            table=table.name,
            lock=max(held[oid], key=lambda mode: mode.strength),
            reads=oid in read,
            rewrites=oid in rewritten,
            changes=LockMode.ROW_EXCLUSIVE in held[oid],
            indexes=len(set(after[oid].indexes) - set(table.indexes)) if oid in after else 0,
        )
        for oid, table in sorted(before.items(), key=lambda one: one[1].name)
        # A look at the catalogue, or at rows that an index finds for a foreign key, disturbs nobody and takes no time.
        if oid == table.whole
        and oid in held
        and (oid in read or any(mode.strength >= LockMode.ROW_EXCLUSIVE.strength for mode in held[oid]))
    ]


async def _tables(connection: Connection) -> Mapping[int, _Table]:
    found = await (await connection.cursor(row_factory=class_row(_Table)).execute(_TABLES)).fetchall()
    return {table.oid: table for table in found}


async def _locks(connection: Connection) -> Mapping[int, set[LockMode]]:
    modes: dict[int, set[LockMode]] = defaultdict(set)
    for lock in await (await connection.cursor(row_factory=class_row(_Lock)).execute(_LOCKS)).fetchall():
        modes[lock.oid].add(LockMode.of_catalogue(lock.mode))
    return modes


_TABLES: Final = """
    select oid::bigint, coalesce(pg_partition_root(oid), oid)::oid::bigint as whole, relname::text as name,
           coalesce(pg_relation_filenode(oid), 0)::bigint as file,
           array(select indexrelid::bigint from pg_index where indrelid = pg_class.oid) as indexes
      from pg_class
     where (relnamespace = current_schema()::regnamespace or relispartition) and relkind in ('r', 'p') and relname <> 'schema_migrations'
"""

_LOCKS: Final = """
    select relation::bigint as oid, mode
      from pg_locks
     where pid = pg_backend_pid() and locktype = 'relation' and granted
"""

# Only what this session has read and not yet handed to the server's statistics, which happens after a transaction.
_SCANS: Final = """
    select relid::bigint as oid, seq_scan + coalesce(idx_scan, 0) as scans
      from pg_stat_xact_user_tables
     where seq_scan + coalesce(idx_scan, 0) > 0
"""
