"""What a database contains, read from one snapshot: the same that a dump of this snapshot contains."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from adapters.postgres.backups.contents import contents, groups_of, use_key
from adapters.postgres.backups.definitions import DEFINITIONS, OWNERSHIP, ROUTINES, digest_of
from adapters.postgres.backups.objects import OBJECTS
from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.listener import APPLICATION_NAME
from core.domain.backups import DatabaseState, Ownership, RoutineState, TableState
from core.domain.record.audit import ChainHead
from core.frozen import Frozen, replace

_PATIENCE_OF_ATTEMPTS: Final = "10s"
_KEY_OF_ATTEMPTS: Final = b"an attempt keeps no digest, so its key is no secret"


class Unreadable(Exception):
    """A table cannot be read. The message is one sentence for the operator."""


class _Table(Frozen):
    object: str
    name: str
    counted: bool
    parts: Sequence[str]
    columns: Sequence[str]
    converted: Sequence[str]
    keys: Sequence[str]


class _Definition(Frozen):
    object: str
    part: str
    text: str


class _Right(Frozen):
    object: str
    owner: str
    role: str | None
    granted: str | None


class _Routine(Frozen):
    object: str
    name: str
    text: str


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

    async def state(
        self, digest_key: bytes | None = None, since: datetime | None = None, known: Mapping[str, Collection[str]] | None = None
    ) -> DatabaseState:
        """Reads the rows of every table, so this takes long on a large database. With a key, tables have digests. Rows that a restore and
        checks of the copy have written later than `since` do not count. Of tables and columns that are not `known`, nothing is
        read: they may be somebody else's. Raises `Unreadable`.
        """
        (of,) = await self._all(_Of, _OF)
        if digest_key is not None:
            await use_key(self._connection, digest_key)
        found = await self._all(_Table, _TABLES)
        definitions = await self._definitions()
        ownerships = await self._ownerships()
        tables: dict[str, TableState] = {}
        if not {one.name for one in found} >= {"audit_entries", "users"}:
            since = None
        for one in found:
            is_read = one.counted and (known is None or one.name in known)
            read = one if known is None else replace(one, columns=[name for name in one.columns if name in known.get(one.name, ())])
            rows, digests = await self._contents(read, since, with_digests=digest_key is not None) if is_read else (None, {})
            tables[one.name] = TableState(one.parts, rows, digests, definitions.get(one.object, {}), ownerships.get(one.object))
        migrations = await self._texts(_MIGRATIONS) if "schema_migrations" in tables else []
        ends = await self._all(_ChainEnd, _HEADS) if "audit_links" in tables else []
        keys = await self._texts(_SIGNING_KEYS) if "signing_keys" in tables else []
        of_migrations = tables["schema_migrations"].ownership if "schema_migrations" in tables else None
        return DatabaseState(
            server=of.version,
            size=of.size,
            migrations=migrations,
            functions=await self._texts(_FUNCTIONS),
            tables=tables,
            heads={str(end.chain_id): str(ChainHead(end.sequence, end.digest)) for end in ends},
            signing_keys=keys,
            routines={one.name: RoutineState(digest_of(one.text), ownerships[one.object]) for one in await self._all(_Routine, ROUTINES)},
            owner=of_migrations.owner if of_migrations is not None else "",
            schema=ownerships.get("schema"),
            objects=await self._texts(OBJECTS),
        )

    async def attempt(self) -> None:
        """Asks all that `state` asks, of one row of each table, so that it takes no longer on a large database. Raises `Unreadable` and the
        driver's errors.
        """
        await self._connection.execute("select set_config('statement_timeout', %(patience)s, true)", {"patience": _PATIENCE_OF_ATTEMPTS})
        await use_key(self._connection, _KEY_OF_ATTEMPTS)
        for statement in (_OF, _FUNCTIONS, OBJECTS, DEFINITIONS, ROUTINES, OWNERSHIP):
            await self._connection.execute(statement)
        # A large installation has many chains.
        for statement in (_MIGRATIONS, _HEADS, _SIGNING_KEYS):
            await self._connection.execute(f"explain {statement}")
        for one in await self._all(_Table, _TABLES):
            if one.counted:
                await self._contents(one, datetime.now(UTC), with_digests=True, one_row=True)

    async def has_entry(self, action: str, target: str) -> bool:
        """Whether the audit log has an entry of this action about this target."""
        row = await (await self._connection.execute(_HAS_ENTRY, {"action": action, "target": target})).fetchone()
        return row == (True,)

    async def _contents(
        self, table: _Table, since: datetime | None, *, with_digests: bool, one_row: bool = False
    ) -> tuple[int, Mapping[str, str]]:
        groups = groups_of(table.name, table.columns, table.keys) if with_digests else {}
        statement, parameters = contents(table.name, groups, table.converted, since, one_row=one_row)
        try:
            row = await (await self._connection.execute(statement, parameters)).fetchone()
        except psycopg.Error as error:
            raise Unreadable(f"the table {table.name} cannot be read: {error.diag.message_primary or 'the connection was lost'}") from error
        counted, *digests = row if row is not None else (0,)
        return int(counted), dict(zip(groups, map(str, digests), strict=True))

    async def _definitions(self) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for one in await self._all(_Definition, DEFINITIONS):
            found.setdefault(one.object, {})[one.part] = digest_of(one.text)
        return found

    async def _ownerships(self) -> Mapping[str, Ownership]:
        owners: dict[str, str] = {}
        grants: dict[str, dict[str, list[str]]] = {}
        for one in await self._all(_Right, OWNERSHIP):
            owners[one.object] = one.owner
            if one.role is not None and one.granted is not None:
                grants.setdefault(one.object, {}).setdefault(one.role, []).append(one.granted)
        return {key: Ownership(owner, grants.get(key, {})) for key, owner in owners.items()}

    async def _all(self, row: type[Any], statement: LiteralString) -> Sequence[Any]:
        cursor = self._connection.cursor(row_factory=class_row(row))
        return await (await cursor.execute(statement)).fetchall()

    async def _texts(self, statement: LiteralString) -> Sequence[str]:
        return [str(row[0]) for row in await (await self._connection.execute(statement)).fetchall()]


@asynccontextmanager
async def exported_snapshot(conninfo: str) -> AsyncIterator[DatabaseSnapshot]:
    async with await Connection.connect(conninfo) as connection:
        await connection.execute(_SETTINGS)
        async with connection.transaction():
            await connection.execute("set transaction isolation level repeatable read, read only")
            row = await (await connection.execute("select pg_export_snapshot()")).fetchone()
            yield DatabaseSnapshot(connection, str(row[0]) if row is not None else "")


async def attempt_reading(conninfo: str) -> int:
    """Whether a backup could read this database as it is: asks what it asks, of one row of each table. Returns the server's version.
    Raises `Unreadable` and the driver's errors.
    """
    async with exported_snapshot(conninfo) as snapshot:
        await snapshot.attempt()
        return snapshot.server_version


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


# A role's time limits are for requests. Definitions are printed in the words of the other settings.
_SETTINGS: Final = """
    select set_config(name, value, false)
      from (
               values ('statement_timeout', '0'), ('idle_in_transaction_session_timeout', '0'), ('search_path', 'pg_catalog, public'),
                      ('timezone', 'UTC'), ('datestyle', 'ISO'), ('intervalstyle', 'postgres'), ('bytea_output', 'hex'),
                      ('extra_float_digits', '1')
           ) as settings (name, value)
"""

_OF: Final = """
    select now() as now, pg_database_size(current_database()) as size, split_part(current_setting('server_version'), ' ', 1) as version
"""

# Names without definitions, which versions of PostgreSQL print in different ways. From version 18 on, "not null" is a constraint, too.
_TABLES: Final = """
    select 'r' || oid as object, relname::text as name, relkind in ('r', 'p') and relpersistence = 'p' as counted,
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
           ) as parts,
           array(
               select attname::text from pg_attribute where attrelid = pg_class.oid and attnum > 0 and not attisdropped order by 1
           ) as columns,
           array(
               select attname::text
                 from pg_attribute
                where attrelid = pg_class.oid and attnum > 0 and not attisdropped and atttypid >= 16384
           ) as converted,
           array(
               select attname::text
                 from pg_index
                 join pg_attribute on attrelid = indrelid and attnum = any (indkey)
                where indrelid = pg_class.oid and indisprimary
           ) as keys
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

_HAS_ENTRY: Final = "select exists (select from audit_entries where action = %(action)s and target_id = %(target)s)"

_IS_SERVED: Final = """
    select exists (select from pg_stat_activity where datname = current_database() and application_name = %(listener)s)
"""
