"""What a database contains, read from one snapshot: the same that a dump of this snapshot contains."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.listener import APPLICATION_NAME
from core.domain.backups import DatabaseState, TableState
from core.domain.record.audit_chains import ChainHead
from core.frozen import Frozen


class Unreadable(Exception):
    """A table cannot be read. The message is one sentence for the operator."""


class _Part(Frozen):
    name: str
    counted: bool
    parts: Sequence[str]


class _ChainEnd(Frozen):
    chain_id: UUID
    sequence: int
    digest: bytes


class _Of(Frozen):
    now: datetime
    size: int
    version: str


class DatabaseSnapshot:
    """A transaction that keeps its snapshot, and the snapshot's name, under which other sessions of the server may take it."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self.name = name

    @property
    def server_version(self) -> int:
        return self._connection.info.server_version

    async def state(self) -> DatabaseState:
        """Counts the rows of every table, so this takes long on a large database. Raises `Unreadable`."""
        (of,) = await self._all(_Of, _OF)
        tables: dict[str, TableState] = {}
        for one in await self._all(_Part, _TABLES):
            tables[one.name] = TableState(one.parts, await self._count(one.name) if one.counted else None)
        migrations = await self._texts(_MIGRATIONS) if "schema_migrations" in tables else []
        ends = await self._all(_ChainEnd, _HEADS) if "audit_links" in tables else []
        keys = await self._texts(_SIGNING_KEYS) if "signing_keys" in tables else []
        return DatabaseState(
            server=of.version,
            size=of.size,
            migrations=migrations,
            functions=await self._texts(_FUNCTIONS),
            tables=tables,
            heads={str(end.chain_id): str(ChainHead(end.sequence, end.digest)) for end in ends},
            signing_keys=keys,
        )

    async def _count(self, table: str) -> int:
        # With `only`, a table in parts would have no rows.
        statement = sql.SQL("select count(*) from public.{}").format(sql.Identifier(table))
        try:
            row = await (await self._connection.execute(statement)).fetchone()
        except psycopg.Error as error:
            raise Unreadable(f"the table {table} cannot be read: {error.diag.message_primary or 'the connection was lost'}") from error
        return int(row[0]) if row is not None else 0

    async def _all(self, row: type[Any], statement: LiteralString) -> Sequence[Any]:
        cursor = self._connection.cursor(row_factory=class_row(row))
        return await (await cursor.execute(statement)).fetchall()

    async def _texts(self, statement: LiteralString) -> Sequence[str]:
        return [str(row[0]) for row in await (await self._connection.execute(statement)).fetchall()]


@asynccontextmanager
async def exported_snapshot(conninfo: str) -> AsyncIterator[DatabaseSnapshot]:
    async with await Connection.connect(conninfo) as connection:
        # A role's time limits are for requests.
        await connection.execute(
            "select set_config('statement_timeout', '0', false), set_config('idle_in_transaction_session_timeout', '0', false)"
        )
        async with connection.transaction():
            await connection.execute("set transaction isolation level repeatable read, read only")
            row = await (await connection.execute("select pg_export_snapshot()")).fetchone()
            yield DatabaseSnapshot(connection, str(row[0]) if row is not None else "")


async def is_empty(conninfo: str) -> bool:
    """Whether the database has no table, view or function of anybody's."""
    async with await Connection.connect(conninfo) as connection:
        return await (await connection.execute(_IS_EMPTY)).fetchone() == (True,)


async def is_served(conninfo: str) -> bool:
    """Whether a Postern process serves this database."""
    async with await Connection.connect(conninfo) as connection:
        return await (await connection.execute(_IS_SERVED, {"listener": APPLICATION_NAME})).fetchone() == (True,)


async def is_the_same(one: str, other: str) -> bool:
    """Whether both addresses lead to the same database of the same server. A lock that one holds, the other cannot get."""
    async with await Connection.connect(one) as first, await Connection.connect(other) as second:
        row = await (await first.execute("select (random() * 9223372036854775000)::bigint")).fetchone()
        assert row is not None  # noqa: S101 - for the type checker: such a select has a row
        await first.execute("select pg_advisory_lock(%(key)s)", {"key": row[0]})
        return await (await second.execute("select pg_try_advisory_lock(%(key)s)", {"key": row[0]})).fetchone() == (False,)


async def gather_statistics(conninfo: str) -> None:
    """For the planner. A dump has none, and until the server finds time for them, statements are slow."""
    async with await Connection.connect(conninfo) as connection:
        await connection.execute("select set_config('statement_timeout', '0', false)")
        await connection.execute("analyze")


async def server_version(conninfo: str) -> int:
    async with await Connection.connect(conninfo) as connection:
        return connection.info.server_version


_OF: Final = """
    select now() as now, pg_database_size(current_database()) as size, split_part(current_setting('server_version'), ' ', 1) as version
"""

# Names without definitions, which versions of PostgreSQL print in different ways. From version 18 on, "not null" is a constraint, too.
_TABLES: Final = """
    select relname::text as name, relkind in ('r', 'p') and relpersistence = 'p' as counted,
           array(
               select 'column ' || attname || ' ' || format_type(atttypid, atttypmod) || case when attnotnull then ' not null' else '' end
                 from pg_attribute
                where attrelid = pg_class.oid and attnum > 0 and not attisdropped
               union all
               select 'constraint ' || conname || case when convalidated then '' else ' (not validated)' end
                 from pg_constraint
                where conrelid = pg_class.oid and contype in ('p', 'u', 'f', 'c', 'x')
               union all
               select 'index ' || indexed.relname || case when indisvalid then '' else ' (invalid)' end
                 from pg_index
                 join pg_class as indexed on indexed.oid = indexrelid
                where indrelid = pg_class.oid
               union all
               select 'trigger ' || tgname || case when tgenabled = 'D' then ' (disabled)' else '' end
                 from pg_trigger
                where tgrelid = pg_class.oid and not tgisinternal
               order by 1
           ) as parts
      from pg_class
     where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v')
     order by relname
"""

_FUNCTIONS: Final = """
    select 'function ' || proname
      from pg_proc
     where pronamespace = 'public'::regnamespace
       and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = pg_proc.oid and deptype = 'e')
     order by proname
"""

_MIGRATIONS: Final = "select to_char(number, 'FM0000') || '_' || name || ' ' || checksum from schema_migrations order by number"

_SIGNING_KEYS: Final = "select id from signing_keys order by id"

# The recursion goes from chain to chain through the index, and does not read every link.
_HEADS: Final = """
    with recursive
         chains (chain_id) as (
             (select chain_id from audit_links order by chain_id limit 1)
              union all
             select (select chain_id from audit_links where audit_links.chain_id > chains.chain_id order by chain_id limit 1)
               from chains
              where chains.chain_id is not null
         )
  select chains.chain_id, head.sequence, head.digest
    from chains
   cross join lateral (
             select sequence, digest from audit_links where audit_links.chain_id = chains.chain_id order by sequence desc limit 1
         ) as head
"""

_IS_EMPTY: Final = """
    select not exists (
               select
                 from pg_class
                 join pg_namespace on pg_namespace.oid = relnamespace
                where nspname <> 'information_schema' and nspname not like 'pg\\_%'
                  and not exists (
                          select from pg_depend where classid = 'pg_class'::regclass and objid = pg_class.oid and deptype = 'e'
                      )
           )
"""

_IS_SERVED: Final = """
    select exists (select from pg_stat_activity where datname = current_database() and application_name = %(listener)s)
"""
