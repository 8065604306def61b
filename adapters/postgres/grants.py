"""The database privileges of the serving role: the statements that grant them, and the check of the present state."""

from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg import errors, sql
from psycopg.rows import class_row

from adapters.postgres.driver.connection import Connection
from core.frozen import Frozen

# The server's role may add rows to these tables and may not change rows. So an intruder with this role cannot rewrite the audit log.
APPEND_ONLY: Final = ("audit_entries", "audit_links")

_MOST_NAMED: Final = 4


class GrantsImpossible(Exception):
    """The message is one sentence for the operator."""


class Rights(Frozen):
    """The rights of a role on our tables. `owns`: the role owns the tables or is a superuser, so nothing restricts the role. `moves`: it
    may make temporary tables, which the export and the import of organizations need, and nothing else does.
    """

    role: str
    owns: bool
    moves: bool
    lacking: Sequence[str]
    surplus: Sequence[str]

    @property
    def fault(self) -> str | None:
        """One sentence on what is wrong. None when all is well."""
        if self.lacking:
            return f"The database role {self.role} may not {_some(self.lacking)}: `postern grants` prints what it needs"
        if self.surplus:
            return f"The database role {self.role} may {_some(self.surplus)}, so it can rewrite the audit log: `postern grants` ends that"
        return None

    @property
    def fault_of_moving(self) -> str | None:
        """One sentence on why this role cannot export or import an organization. None when it can."""
        if self.moves:
            return None
        return (
            f"The database role {self.role} may not make temporary tables, which moving an organization needs: "
            "run `postern grants --apply` as the owner of the tables"
        )


async def rights(conninfo: str, role: str | None = None) -> Rights:
    """The rights of this role, or, without one, of the role that connects. Raises `GrantsImpossible` when no role has this name."""
    async with await Connection.connect(conninfo) as connection:
        return await _rights(connection, await _role(connection) if role is None else role)


async def script(conninfo: str, role: str) -> Sequence[str]:
    """The statements for this role, for the owner of the tables to run. The owner may repeat the statements. Raises `GrantsImpossible`."""
    async with await Connection.connect(conninfo) as connection:
        return await _script(connection, role)


async def apply(conninfo: str, role: str) -> Rights:
    """Runs all statements of `script` or none; returns the role's rights afterwards. Raises `GrantsImpossible`.

    A dump has no grants that another cluster could use, and a new database has none. So an operator's command grants them, and may be
    repeated.
    """
    async with await Connection.connect(conninfo) as connection:
        statements = await _script(connection, role)
        try:
            async with connection.transaction():
                for statement in statements:
                    await connection.execute(statement.encode())
        except errors.InsufficientPrivilege as error:
            raise GrantsImpossible(
                f"The database role {await _role(connection)} may not grant this ({error.diag.message_primary}): "
                "POSTERN_DATABASE_URL has to name the role that owns the tables"
            ) from error
        except psycopg.Error as error:
            raise GrantsImpossible(f"The grants were not applied: {error.diag.message_primary or error}") from error
        return await _rights(connection, role)


async def prepared_roles(conninfo: str) -> Sequence[str]:
    """The roles that may add people, by a grant on the table or by default privileges, and neither own the tables nor are superusers: those
    for which the operator has prepared this database.
    """
    async with await Connection.connect(conninfo) as connection:
        return [str(name) for (name,) in await (await connection.execute(_PREPARED)).fetchall()]


def _some(rights: Sequence[str]) -> str:
    named = ", ".join(rights[:_MOST_NAMED])
    more = len(rights) - _MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named


class _Standing(Frozen):
    connects: bool
    moves: bool
    uses_schema: bool
    owns: bool


class _Right(Frozen):
    table: str
    kind: str
    right: str
    held: bool
    partly: bool


class _Place(Frozen):
    database: str
    owner: str
    has_parts: bool
    functions: str


async def _role(connection: Connection) -> str:
    row = await (await connection.execute("select current_user")).fetchone()
    return str(row[0]) if row is not None else ""


async def _rights(connection: Connection, role: str) -> Rights:
    cursor = connection.cursor(row_factory=class_row(_Standing))
    standing = await (await cursor.execute(_STANDING, {"role": role})).fetchone()
    if standing is None:
        raise GrantsImpossible(f"There is no database role {role}; `--role` names the one that serves")
    lacking = [] if standing.connects else ["connect to the database"]
    if not standing.uses_schema:
        lacking.append("use the schema public")
    surplus: list[str] = []
    found = connection.cursor(row_factory=class_row(_Right))
    for one in await (await found.execute(_RIGHTS, {"role": role})).fetchall():
        named = f"{one.right} {one.table}"
        if one.right in _needed(one):
            if not one.held:
                lacking.append(named)
        elif one.table in APPEND_ONLY and (one.held or one.partly) and not standing.owns:
            surplus.append(named)
    return Rights(role, standing.owns, standing.moves, lacking, surplus)


def _needed(one: _Right) -> Sequence[str]:
    if one.table == "schema_migration_steps":
        return ()  # of a migration that is under way; nobody else reads it
    if one.kind == "f":
        return ("execute",)
    if one.kind == "v" or one.table == "schema_migrations":
        return ("select",)
    return ("select", "insert") if one.table in APPEND_ONLY else ("select", "insert", "update", "delete")


async def _script(connection: Connection, role: str) -> Sequence[str]:
    standing = await _rights(connection, role)
    if standing.owns:
        raise GrantsImpossible(f"The database role {role} owns the tables or is a superuser: grants make no difference to it")
    place = await (await connection.cursor(row_factory=class_row(_Place)).execute(_PLACE)).fetchone()
    if place is None:
        raise GrantsImpossible("There are no tables to grant anything on: run `postern migrate` first")
    names: dict[str, sql.Composable] = {
        "database": sql.Identifier(place.database),
        "owner": sql.Identifier(place.owner),
        "role": sql.Identifier(role),
        # The server quotes each name with its arguments.
        "functions": sql.SQL(place.functions),
        "append_only": sql.SQL(", ").join(map(sql.Identifier, APPEND_ONLY)),
    }
    script = _SCRIPT + _SCRIPT_FOR_PARTS if place.has_parts else _SCRIPT
    return sql.SQL(script.strip()).format(**names).as_string(connection).splitlines()


# The script first grants the owner's own rights, because the owner may have had them only through `public`, and then revokes the rights of
# `public`.
_SCRIPT: Final = """
grant usage, create on schema public to {owner}
revoke all on schema public from public
revoke all on database {database} from public
grant connect, temporary on database {database} to {role}
grant usage on schema public to {role}
grant select, insert, update, delete on all tables in schema public to {role}
grant usage on all sequences in schema public to {role}
grant execute on function {functions} to {role}
alter default privileges for role {owner} in schema public grant select, insert, update, delete on tables to {role}
alter default privileges for role {owner} in schema public grant usage on sequences to {role}
alter default privileges for role {owner} in schema public grant execute on functions to {role}
revoke update, delete, truncate on {append_only} from {role}
"""
# Requests read parts through their tables. A backup dumps each part by itself.
_SCRIPT_FOR_PARTS: Final = """\
grant usage on schema partitions to {role}
grant select on all tables in schema partitions to {role}
alter default privileges for role {owner} in schema partitions grant select on tables to {role}
"""

_STANDING: Final = """
    select has_database_privilege(oid, current_database(), 'connect') as connects,
           has_database_privilege(oid, current_database(), 'temporary') as moves,
           coalesce(has_schema_privilege(oid, to_regnamespace('public'), 'usage'), true) as uses_schema,
           rolsuper or coalesce((select pg_has_role(pg_roles.oid, relowner, 'usage')
                                   from pg_class
                                  where relnamespace = to_regnamespace('public') and relname = 'schema_migrations'), false) as owns
      from pg_roles
     where rolname = %(role)s
"""

# Whoever may write all data by a role of PostgreSQL's is not named in the table's grants.
_PREPARED: Final = """
    select distinct pg_roles.rolname::text
      from pg_class
     cross join lateral aclexplode(relacl) as granted
      join pg_roles on pg_roles.oid = granted.grantee
     where relnamespace = to_regnamespace('public') and relname = 'users' and granted.privilege_type = 'INSERT'
       and not rolsuper and not pg_has_role(pg_roles.oid, relowner, 'usage')
     order by 1
"""

# The owner's functions that statements call. One of a trigger runs with the statement that fires it.
_FUNCTIONS: Final = """
      from pg_proc
     where pronamespace = to_regnamespace('public') and prorettype <> 'trigger'::regtype
       and proowner = (
               select relowner from pg_class where relnamespace = to_regnamespace('public') and relname = 'schema_migrations'
           )
"""

_PLACE: Final = f"""
    select current_database()::text as database, pg_get_userbyid(relowner)::text as owner,
           to_regnamespace('partitions') is not null as has_parts,
           (select string_agg(oid::regprocedure::text, ', ' order by oid::regprocedure::text) {_FUNCTIONS}) as functions
      from pg_class
     where relnamespace = to_regnamespace('public') and relname = 'schema_migrations'
"""

_RIGHTS: Final = f"""
    select held.table, held.kind, held.right, held.held, held.partly
      from (
               select relname::text as table, relkind::text as kind, rights.name as right,
                      has_table_privilege(%(role)s::name, pg_class.oid, rights.name) as held,
                      rights.name in ('update', 'insert') and has_any_column_privilege(%(role)s::name, pg_class.oid, rights.name) as partly,
                      rights.place
                 from pg_class
                cross join unnest(array['select', 'insert', 'update', 'delete', 'truncate']) with ordinality as rights (name, place)
                where relnamespace = to_regnamespace('public') and relkind in ('r', 'p', 'v')
                union all
               select proname::text, 'f', 'execute', has_function_privilege(%(role)s::name, pg_proc.oid, 'execute'), false, 1
               {_FUNCTIONS}
           ) as held
     order by held.table, held.place
"""
