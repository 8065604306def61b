"""Migrations: forward-only files `NNNN_name.sql`. One process at a time applies a migration, once, in its own transaction.

The first line of each migration says which older processes may go on running beside it (docs/decisions/0022): `-- additive` for all, `--
additive since NNNN` for those that carry migration NNNN, `-- breaking` for none.

Every error message here is a sentence for the operator who starts or migrates an installation.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

import psycopg
import trio
from psycopg import errors
from psycopg.rows import class_row

from adapters.postgres import locks
from adapters.postgres.driver.connection import Connection
from core.frozen import Frozen

OLDEST_SERVER: Final = 14

# While a statement waits for a table lock, every later query on the table waits behind this statement. So a migration gives up soon and
# tries again.
LOCK_TIMEOUT: Final = "3s"
LOCK_ATTEMPTS: Final = 10
LOCK_PAUSE: Final = 1.0

_FOLDER: Final = Path(__file__).parent / "migrations"
_FILE_NAME: Final = re.compile(r"(?P<number>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_HEADER: Final = re.compile(r"-- (?:(?P<breaking>breaking)|additive(?: since (?P<since>\d{4}))?)\n")
# The migrations up to this one are older than the header, and a migration is not edited.
_LAST_WITHOUT_HEADER: Final = 5

Report = Callable[[str], None]


class SchemaMismatch(Exception):
    """The database cannot be served or migrated as it is. The message is one sentence for the operator."""


class MigrationFailed(SchemaMismatch):
    """A migration was rolled back. Earlier migrations stay applied."""


class Migration(Frozen):
    number: int
    name: str
    sql: str
    needs: int | None = None
    """The number of the migration that an older process must carry to run beside this migration. With 0, any process may run. With None,
    only processes that carry this migration may run.
    """

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def promise(self) -> str:
        """One phrase for the operator: what becomes of older processes."""
        match self.needs:
            case None:
                return "breaking: older processes cannot start once it is applied"
            case 0:
                return "additive: older processes go on"
            case number:
                return f"additive since {number:04}: processes that carry {number:04} go on"

    def __str__(self) -> str:
        return f"{self.number:04}_{self.name}"


class AppliedMigration(Frozen):
    number: int
    name: str
    checksum: str
    applied_at: datetime
    needs: int | None = None

    def __str__(self) -> str:
        return f"{self.number:04}_{self.name}"


class MigrationPlan(Frozen):
    """The state of the database, and what `migrate` would do to it."""

    applied: Sequence[AppliedMigration]
    pending: Sequence[Migration]
    ahead: Sequence[AppliedMigration] = ()
    """Applied migrations of a newer Postern that this program can run beside."""


def shipped(folder: Path = _FOLDER) -> Sequence[Migration]:
    """The migrations that this program carries, in order. Raises `SchemaMismatch` when their numbers are not 1, 2, 3 …, or when a migration
    does not say which older processes may run beside it.
    """
    migrations = []
    for expected, file in enumerate(sorted(folder.glob("*.sql")), start=1):
        match = _FILE_NAME.fullmatch(file.name)
        if match is None or int(match["number"]) != expected:
            raise SchemaMismatch(f"This Postern is damaged: its migration {file.name} stands where number {expected:04} is due")
        sql = file.read_text(encoding="utf-8")
        migrations.append(Migration(expected, match["name"], sql, _needs(file.name, expected, sql)))
    return migrations


def _needs(file: str, number: int, sql: str) -> int | None:
    header = _HEADER.match(sql)
    if header is None:
        if number <= _LAST_WITHOUT_HEADER:
            return None
        raise SchemaMismatch(
            f"This Postern is damaged: its migration {file} does not begin with `-- additive`, `-- additive since NNNN` or `-- breaking`"
        )
    if header["breaking"]:
        return None
    since = int(header["since"] or 0)
    if since >= number:
        raise SchemaMismatch(f"This Postern is damaged: its migration {file} cannot be additive since {since:04}")
    return since


async def plan(conninfo: str, migrations: Sequence[Migration] | None = None) -> MigrationPlan:
    """What `migrate` would do. Changes nothing."""
    async with _connected(conninfo) as connection:
        return await _plan(connection, shipped() if migrations is None else migrations)


async def require_current(conninfo: str, migrations: Sequence[Migration] | None = None) -> Sequence[AppliedMigration]:
    """Raises `SchemaMismatch` unless this program can run on the database as it is. Returns the migrations that a newer Postern has
    applied.
    """
    found = await plan(conninfo, migrations)
    if found.pending:
        names = ", ".join(str(migration) for migration in found.pending)
        raise SchemaMismatch(f"The database lacks what this Postern needs ({names}): run `postern migrate`")
    return found.ahead


async def migrate(conninfo: str, report: Report, migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """Bring the database to the end state; returns the applied migrations. May be repeated, and may run in several processes at once: one
    process does the work, the others wait for that process and find the work done.
    """
    known = shipped() if migrations is None else migrations
    done: list[Migration] = []
    async with _connected(conninfo) as connection:
        while (await _plan(connection, known)).pending:
            applied = await _apply_next(connection, known, report)
            if applied is not None:
                done.append(applied)
    return done


@asynccontextmanager
async def _connected(conninfo: str) -> AsyncIterator[Connection]:
    connection = await Connection.connect(conninfo)
    try:
        yield connection
    finally:
        # Closing does not wait; an open transaction ends with the connection.
        with trio.CancelScope(shield=True):
            await connection.close()


async def _plan(connection: Connection, migrations: Sequence[Migration]) -> MigrationPlan:
    require_supported(connection.info.server_version, connection.info.parameter_status("server_encoding"))
    applied = await _applied(connection)
    _require_history_of(migrations, applied)
    return MigrationPlan(applied, migrations[len(applied) :], applied[len(migrations) :])


def require_supported(server_version: int, encoding: str | None) -> None:
    """`server_version` in libpq's form: 140005 is 14.5."""
    if server_version < OLDEST_SERVER * 10_000:
        raise SchemaMismatch(f"Postern needs PostgreSQL {OLDEST_SERVER} or later; this server is {server_version // 10_000}")
    if encoding != "UTF8":
        raise SchemaMismatch(f"Postern needs a database in UTF8; this one is in {encoding}")


def _require_history_of(migrations: Sequence[Migration], applied: Sequence[AppliedMigration]) -> None:
    for expected, there in enumerate(applied, start=1):
        if there.number != expected:
            raise SchemaMismatch(f"The database has a hole: migration {there} is applied, but number {expected:04} is not")
        if expected > len(migrations):
            if (expected if there.needs is None else there.needs) <= len(migrations):
                continue
            newest = migrations[-1] if migrations else "none"
            raise SchemaMismatch(
                f"The database was migrated by a newer Postern: this one knows up to {newest}, and cannot run beside {there}"
            )
        ours = migrations[expected - 1]
        if (there.name, there.checksum) != (ours.name, ours.checksum):
            raise SchemaMismatch(f"Migration {there} was applied in another form than the {ours} that this Postern carries")


# The statement does not use to_regclass, because within one transaction to_regclass may answer from a cache that does not know of another
# transaction's commit.
_HAS_TABLE: Final = "select exists (select from pg_class where relname = 'schema_migrations' and pg_table_is_visible(oid))"

# A role that may not use the schema sees no table in it. We refuse such a database; otherwise we would take it for an empty one.
_USE_SCHEMA: Final = "select to_regclass('public.schema_migrations')"

# The statement reads `needs` through JSON, because the column does not exist before the first migration that records it.
_APPLIED: Final = """
    select number, name, checksum, applied_at, (to_jsonb(schema_migrations) ->> 'needs')::integer as needs
      from schema_migrations
     order by number
"""


async def _applied(connection: Connection) -> Sequence[AppliedMigration]:
    try:
        if await (await connection.execute(_HAS_TABLE)).fetchone() != (True,):
            await connection.execute(_USE_SCHEMA)
            return []
        cursor = connection.cursor(row_factory=class_row(AppliedMigration))
        return await (await cursor.execute(_APPLIED)).fetchall()
    except errors.InsufficientPrivilege as error:
        raise SchemaMismatch(
            f"The database role {connection.info.user} may not see what is there ({error.diag.message_primary}): "
            "`postern grants`, as the owner of the tables, prints what it needs"
        ) from error


async def _apply_next(connection: Connection, migrations: Sequence[Migration], report: Report) -> Migration | None:
    """Apply the first pending migration. None when another process applied it while we waited."""
    for attempt in range(1, LOCK_ATTEMPTS + 1):
        if attempt > 1:
            report("A table is in use; trying again …")
            await trio.sleep(LOCK_PAUSE)
        with suppress(errors.LockNotAvailable):
            async with connection.transaction():
                await _take_turn(connection, report)
                pending = (await _plan(connection, migrations)).pending
                if not pending:
                    return None
                await _apply(connection, pending[0], report)
                return pending[0]
    raise MigrationFailed(f"A migration could not get a table to itself in {LOCK_ATTEMPTS} attempts; nothing of it was kept")


# The operator may have set timeouts for the role or the database. Waiting for another process, or rewriting a table, may take longer than
# these timeouts allow.
_PATIENCE: Final = "select set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)"

_TRY_TURN: Final = "select pg_try_advisory_xact_lock(%(namespace)s, %(lock)s)"

_WAIT_FOR_TURN: Final = "select pg_advisory_xact_lock(%(namespace)s, %(lock)s)"


async def _take_turn(connection: Connection, report: Report) -> None:
    """Wait until no other process migrates. The lock lasts until the transaction ends."""
    lock = {"namespace": locks.NAMESPACE, "lock": locks.MIGRATION}
    await connection.execute(_PATIENCE)
    if await (await connection.execute(_TRY_TURN, lock)).fetchone() != (True,):
        report("Another process is migrating; waiting for it …")
        await connection.execute(_WAIT_FOR_TURN, lock)


_TABLE: Final = """
    create table if not exists schema_migrations (
        number     integer     primary key,
        name       text        not null,
        checksum   text        not null,               -- SHA-256 of the file, in hexadecimal
        applied_at timestamptz not null default now(),
        needs      integer                             -- the migration that a process must carry to run beside this one; null: this one
    );
    alter table schema_migrations add column if not exists needs integer
"""

_LOCK_TIMEOUT: Final = "select set_config('lock_timeout', %(timeout)s, true)"

_REMEMBER: Final = """
    insert into schema_migrations (number, name, checksum, needs) values (%(number)s, %(name)s, %(checksum)s, %(needs)s)
"""


async def _apply(connection: Connection, migration: Migration, report: Report) -> None:
    report(f"Applying {migration} …")
    started = trio.current_time()
    try:
        await connection.execute(_TABLE)
        await connection.execute(_LOCK_TIMEOUT, {"timeout": LOCK_TIMEOUT})
        # Without parameters, a string of many statements goes to the server unchanged. As bytes it need not be a literal string.
        await connection.execute(migration.sql.encode())
        remembered = {"number": migration.number, "name": migration.name, "checksum": migration.checksum, "needs": migration.needs}
        await connection.execute(_REMEMBER, remembered)
    except errors.LockNotAvailable:
        raise
    except errors.InsufficientPrivilege as error:
        raise MigrationFailed(
            f"The database role {connection.info.user} may not migrate ({error.diag.message_primary}): "
            "POSTERN_DATABASE_URL has to name the role that owns the tables"
        ) from error
    except psycopg.Error as error:
        reason = error.diag.message_primary or str(error).partition("\n")[0]
        raise MigrationFailed(f"Migration {migration} failed and was rolled back: {reason}") from error
    report(f"Applied {migration} in {trio.current_time() - started:.2f} s")
