"""Describes what a database contains, read from one snapshot: the same that a dump of this snapshot contains."""

import hashlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from adapters.postgres.backups.restored import HOLDABLE
from adapters.postgres.driver.connection import Connection
from adapters.postgres.listening_processes import LISTENS, NAME
from core.domain.backups import ColumnGroup, DatabaseState, Ownership, RoutineState, TableState
from core.domain.record.audit import ChainHead
from core.frozen import Frozen, replace

_LENGTH: Final = 16


def digest_of(definition: str) -> str:
    """A schema is no secret, so its digests need no key."""
    return hashlib.sha256(definition.encode()).hexdigest()[:_LENGTH]


# Statements that read how the parts of the schema are defined, and who owns them. The texts are PostgreSQL's own, printed under one
# `search_path`. Versions of PostgreSQL print some of them in different ways.
DEFINITIONS: Final = """
    select 'r' || attrelid as object, 'default of ' || attname as part, attgenerated::text || pg_get_expr(adbin, adrelid) as text
      from pg_attrdef
      join pg_attribute on attrelid = adrelid and attnum = adnum
     where adrelid in (select oid from pg_class where relnamespace = 'public'::regnamespace)
     union all
    select 'r' || conrelid, 'constraint ' || conname, pg_get_constraintdef(oid)
      from pg_constraint
     where connamespace = 'public'::regnamespace and conrelid <> 0 and contype in ('p', 'u', 'f', 'c', 'x')
     union all
    select 'r' || indrelid, 'index ' || relname, pg_get_indexdef(indexrelid)
      from pg_index
      join pg_class on pg_class.oid = indexrelid
     where relnamespace = 'public'::regnamespace
     union all
    select 'r' || tgrelid, 'trigger ' || tgname,
           case when tgenabled in ('A', 'R') then tgenabled::text else '' end || pg_get_triggerdef(pg_trigger.oid)
      from pg_trigger
      join pg_class on pg_class.oid = tgrelid
     where relnamespace = 'public'::regnamespace and not tgisinternal
     union all
    select 'r' || oid, 'query', pg_get_viewdef(oid)
      from pg_class
     where relnamespace = 'public'::regnamespace and relkind = 'v'
     union all
    select 'r' || oid, 'row security', concat_ws(' ', relrowsecurity, relforcerowsecurity)
      from pg_class
     where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
     union all
    select 'r' || polrelid, 'policy ' || polname,
           concat_ws(' ', polcmd, polpermissive, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
      from pg_policy
      join pg_class on pg_class.oid = polrelid
     where relnamespace = 'public'::regnamespace
     union all
    select 'r' || ev_class, 'rule ' || rulename, pg_get_ruledef(pg_rewrite.oid)
      from pg_rewrite
      join pg_class on pg_class.oid = ev_class
     where relnamespace = 'public'::regnamespace and rulename <> '_RETURN'
"""

# Functions of extensions are their extension's.
ROUTINES: Final = """
    select 'f' || pg_proc.oid as object, proname || '(' || pg_get_function_identity_arguments(pg_proc.oid) || ')' as name,
           concat_ws(' ', lanname, prosecdef, proleakproof, proisstrict, provolatile, pg_get_function_result(pg_proc.oid), proconfig,
                     prosrc, pg_get_expr(prosqlbody, 0)) as text
      from pg_proc
      join pg_language on pg_language.oid = prolang
     where pronamespace = 'public'::regnamespace
       and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = pg_proc.oid and deptype = 'e')
"""

# The owner's own rights, and those that PostgreSQL gives everybody, are not listed. The schema of a new database belongs to whoever owns
# the database, or to the server's first role; both count as nobody. Rights to what is made later are the schema's.
OWNERSHIP: Final = """
      with objects as (
               select 'r' || oid as object, relowner as owner, relacl as acl, acldefault('r', relowner) as usual
                 from pg_class
                where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v')
                union all
               select 'f' || oid, proowner, proacl, acldefault('f', proowner)
                 from pg_proc
                where pronamespace = 'public'::regnamespace
                union all
               select 'schema', nspowner, nspacl,
                      (select initprivs from pg_init_privs where classoid = 'pg_namespace'::regclass and objoid = pg_namespace.oid)
                 from pg_namespace
                where nspname = 'public'
           ),
           granted as (
               (select object, grantee,
                       case privilege_type when 'USAGE' then 'use' else lower(privilege_type) end
                           || case when is_grantable then ' with grant option' else '' end as granted
                  from objects
                 cross join lateral aclexplode(acl)
                 where grantee <> owner
                except
                select object, grantee, case privilege_type when 'USAGE' then 'use' else lower(privilege_type) end
                  from objects
                 cross join lateral aclexplode(usual))
                union all
               select 'r' || attrelid, grantee, lower(privilege_type) || ' of ' || attname
                 from pg_attribute
                 join pg_class on pg_class.oid = attrelid
                cross join lateral aclexplode(attacl)
                where relnamespace = 'public'::regnamespace and grantee <> relowner
                union all
               select distinct 'schema', grantee, lower(privilege_type) || ' of later ' || kind.name
                 from pg_default_acl
                 join (
                          values ('r', 'tables', null), ('S', 'sequences', null), ('f', 'functions', 'EXECUTE'), ('T', 'types', 'USAGE')
                      ) as kind (letter, name, usual) on kind.letter = defaclobjtype::text
                cross join lateral aclexplode(defaclacl)
                where defaclnamespace in (0, 'public'::regnamespace) and grantee <> defaclrole
                  and not (grantee = 0 and privilege_type = coalesce(kind.usual, ''))
           )
    select object,
           case when object = 'schema' and owner in (10, 'pg_database_owner'::regrole)
                then ''
                else pg_get_userbyid(owner)::text
           end as owner,
           case when grantee = 0 then 'public' else pg_get_userbyid(grantee)::text end as role, granted
      from objects
      left join granted using (object)
     order by object, role, granted
"""


# Lists what a database has besides the tables, views and functions of the schema `public`, one line for each object: what acts or shows
# something, such as a materialized view that copies users, an event trigger, a function in a schema of its own, and the rights of roles to
# such objects. What belongs to an extension goes with the extension, a part of a table with the table, and the sequence of a column with
# the column.
OBJECTS: Final = """
      with schemas as (
               select oid, case when nspname = 'public' then '' else nspname || '.' end as prefix
                 from pg_namespace
                where nspname <> 'information_schema' and nspname not like 'pg\\_%'
           ),
           relations as (
               select pg_class.oid,
                      case relkind when 'S' then 'sequence ' when 'm' then 'materialized view ' when 'f' then 'foreign table '
                                   when 'v' then 'view ' else 'table ' end || prefix || relname as name,
                      relowner as owner, relacl as acl, acldefault(case relkind when 'S' then 's' else 'r' end::"char", relowner) as usual,
                      relispartition or exists (
                          select
                            from pg_depend
                           where classid = 'pg_class'::regclass and objid = pg_class.oid and refclassid = 'pg_class'::regclass
                             and deptype in ('a', 'i') and relkind = 'S'
                      ) as is_part
                 from pg_class
                 join schemas on schemas.oid = relnamespace
                where relkind in ('S', 'm', 'f') or relkind in ('r', 'p', 'v') and prefix <> ''
           ),
           routines as (
               select pg_proc.oid,
                      'function ' || prefix || proname || '(' || pg_get_function_identity_arguments(pg_proc.oid) || ')' as name,
                      proowner as owner, proacl as acl, acldefault('f', proowner) as usual
                 from pg_proc
                 join schemas on schemas.oid = pronamespace
                where prefix <> ''
           ),
           named (class, oid, name) as (
               select 'pg_class'::regclass, oid, name from relations where not is_part
                union all
               select 'pg_proc'::regclass, oid, name from routines
                union all
               select 'pg_type'::regclass, pg_type.oid, 'type ' || prefix || typname
                 from pg_type
                 join schemas on schemas.oid = typnamespace
                 left join pg_class on pg_class.oid = typrelid
                where typtype in ('d', 'e', 'r') or typtype = 'c' and relkind = 'c' or typtype = 'b' and typcategory <> 'A'
                union all
               select 'pg_operator'::regclass, pg_operator.oid, 'operator ' || prefix || oprname
                 from pg_operator
                 join schemas on schemas.oid = oprnamespace
                union all
               select 'pg_collation'::regclass, pg_collation.oid, 'collation ' || prefix || collname
                 from pg_collation
                 join schemas on schemas.oid = collnamespace
                union all
               select 'pg_namespace'::regclass, oid, 'schema ' || rtrim(prefix, '.') from schemas where prefix <> ''
                union all
               select 'pg_extension'::regclass, oid, 'extension ' || extname from pg_extension
                union all
               select 'pg_event_trigger'::regclass, oid, 'event trigger ' || evtname from pg_event_trigger
                union all
               select 'pg_publication'::regclass, oid, 'publication ' || pubname from pg_publication
                union all
               select 'pg_foreign_server'::regclass, oid, 'foreign server ' || srvname from pg_foreign_server
                union all
               select 'pg_language'::regclass, oid, 'language ' || lanname from pg_language where oid >= 16384
                union all
               select 'pg_cast'::regclass, oid, 'cast of ' || format_type(castsource, null) || ' to ' || format_type(casttarget, null)
                 from pg_cast
                where oid >= 16384
           ),
           granted as (
               select class, oid, name, grantee, privilege_type as granted
                 from (
                          select 'pg_class'::regclass as class, oid, name, owner, acl, usual from relations
                           union all
                          select 'pg_proc'::regclass, oid, name, owner, acl, usual from routines
                           union all
                          select 'pg_namespace'::regclass, pg_namespace.oid, 'schema ' || nspname, nspowner, nspacl,
                                 acldefault('n', nspowner)
                            from pg_namespace
                            join schemas using (oid)
                           where prefix <> ''
                      ) as things
                cross join lateral aclexplode(acl)
                where grantee <> owner
                  and not exists (
                          select
                            from aclexplode(usual) as by_default
                           where (by_default.grantee, by_default.privilege_type) = (aclexplode.grantee, aclexplode.privilege_type)
                      )
                union all
               select 'pg_default_acl'::regclass, pg_default_acl.oid, 'what is made later in ' || nspname, grantee, privilege_type
                 from pg_default_acl
                 join pg_namespace on pg_namespace.oid = defaclnamespace
                cross join lateral aclexplode(defaclacl)
                where nspname <> 'public' and grantee <> defaclrole
           )
    select name
      from named
     where not exists (select from pg_depend where classid = class and objid = named.oid and deptype = 'e')
     union
    select 'the right of ' || case when grantee = 0 then 'public' else pg_get_userbyid(grantee)::text end
               || ' to ' || lower(granted) || ' on ' || name
      from granted
     where not exists (select from pg_depend where classid = class and objid = granted.oid and deptype = 'e')
     order by 1
"""


# A parameter of a long statement would stand in the server's log of slow statements.
_USE_KEY: Final = "select set_config('postern.digest_key', %(key)s, false)"


async def use_key(connection: Connection, key: bytes) -> None:
    await connection.execute(_USE_KEY, {"key": key.hex()})


def groups_of(table: str, columns: Sequence[str], keys: Sequence[str]) -> Mapping[ColumnGroup, Sequence[str]]:
    """The columns of each group. The second group has the primary key, too: otherwise two rows could swap their values."""
    holdable = HOLDABLE.get(table, ())
    contents = [name for name in columns if name not in holdable]
    held = [name for name in columns if name in holdable]
    groups = {ColumnGroup.CONTENTS: contents} if contents else {}
    return {**groups, ColumnGroup.HOLDABLE: sorted({*keys, *held})} if held else groups


def contents(
    table: str,
    groups: Mapping[ColumnGroup, Sequence[str]],
    converted: Collection[str],
    since: datetime | None = None,
    *,
    one_row: bool = False,
) -> tuple[sql.Composed, Mapping[str, object]]:
    """Returns the statement that counts the rows of a table and computes their keyed digests, in one scan, and its parameters. `converted`
    are columns whose type only this database has, so that their text is taken. Rows that a restore or a check of the copy has written later
    than `since` do not count. With `one_row`, the statement reads one row at most: for a trial.

    Each row becomes the SHA-256 of the key and its values in PostgreSQL's binary form, which depends on no setting. The digest of the table
    is the sum of the first 64 bits of each, so the order of rows does not matter, the planner may share the work among its processes, and
    two tables with the same digest have the same rows. Without the key, nobody can search for other rows with the same sum, or guess what a
    small table holds. All of it uses functions of PostgreSQL 14, so every server computes the same digest.
    """
    digests = [_DIGEST.format(sql.SQL(", ").join(_column(name, converted) for name in columns)) for columns in groups.values()]
    counted = sql.SQL(", ").join([sql.SQL("count(*)"), *digests])
    # With `only`, a table in parts would have no rows.
    read = sql.SQL("(select * from public.{} limit 1)" if one_row else "public.{}").format(sql.Identifier(table))
    every = sql.SQL("select {} from {} as counted").format(counted, read)
    if since is None or table not in _WITHOUT_OURS:
        return every, {}
    return sql.SQL("{} where {}").format(every, sql.SQL(_WITHOUT_OURS[table])), {"since": since}


def _column(name: str, converted: Collection[str]) -> sql.Composed:
    return sql.SQL("counted.{}::text" if name in converted else "counted.{}").format(sql.Identifier(name))


# PostgreSQL 14 reads a number out of bytes only by their hexadecimal text.
_DIGEST: Final = sql.SQL(
    "coalesce(sum(('x' || encode(substring(sha256("
    "decode(current_setting('postern.digest_key'), 'hex') || record_send(row({}))"
    ") from 1 for 8), 'hex'))::bit(64)::bigint), 0)::text"
)

# The entries of `postern backup restore`, of `postern jobs release`, and of the account that a check makes and removes.
_OURS: Final = """(
    select id
      from public.audit_entries
     where created_at > %(since)s and organization_id is null
       and (action in ('platform.backup.restored', 'platform.work.released')
            or action = 'platform.owner.created' and not exists (select from public.users where users.id::text = target_id))
)"""

_WITHOUT_OURS: Final[Mapping[str, LiteralString]] = {
    "audit_entries": f"counted.id not in {_OURS}",
    "audit_pending": f"counted.entry_id not in {_OURS}",
    "audit_links": f"counted.entry_id not in {_OURS}",
    # A secret that nobody needed before is made by the first who needs it.
    "server_secrets": "counted.created_at <= %(since)s",
}


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
        self,
        digest_key: bytes | None = None,
        since: datetime | None = None,
        known: Mapping[str, Collection[str]] | None = None,
        undivided: Collection[str] = (),
    ) -> DatabaseState:
        """Reads the rows of every table, so this takes long on a large database. With a key, tables have digests. Rows that a restore and
        checks of the copy have written later than `since` do not count. Of tables and columns that are not `known`, nothing is
        read: they may be somebody else's. Tables that are `undivided` have one digest of all columns. Raises `Unreadable`.
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
            groups = groups_of(one.name, read.columns, one.keys) if one.name not in undivided else {ColumnGroup.CONTENTS: read.columns}
            rows, digests = await self._contents(read, since, groups if digest_key is not None else {}) if is_read else (None, {})
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
                await self._contents(one, datetime.now(UTC), groups_of(one.name, one.columns, one.keys), one_row=True)

    async def has_entry(self, action: str, target: str) -> bool:
        """Whether the audit log has an entry of this action about this target."""
        row = await (await self._connection.execute(_HAS_ENTRY, {"action": action, "target": target})).fetchone()
        return row == (True,)

    async def _contents(
        self, table: _Table, since: datetime | None, groups: Mapping[ColumnGroup, Sequence[str]], *, one_row: bool = False
    ) -> tuple[int, Mapping[str, str]]:
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
        return await (await connection.execute(_IS_SERVED, NAME)).fetchone() == (True,)


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

_IS_SERVED: Final = f"select exists (select from pg_stat_activity where {LISTENS})"
