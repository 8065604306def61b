"""Migrations: forward-only `NNNN_name.sql` files, each applied once, in its own transaction, by one process at a time.

Every sentence that is raised here is meant for the operator who starts or migrates an installation.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import psycopg
import trio
from psycopg import errors
from psycopg.rows import class_row

from adapters.postgres import locks
from adapters.postgres.driver import Connection

OLDEST_SERVER: Final = 14

# A statement that waits for a table lock makes every later query on that table wait behind it, so it gives up soon and tries again.
LOCK_TIMEOUT: Final = "3s"
LOCK_ATTEMPTS: Final = 10
LOCK_PAUSE: Final = 1.0

_FOLDER: Final = Path(__file__).parent / "migrations"
_FILE_NAME: Final = re.compile(r"(?P<number>\d{4})_(?P<name>[a-z0-9_]+)\.sql")

Report = Callable[[str], None]


class SchemaMismatch(Exception):
    """The database cannot be served or migrated as it is. The message is one sentence for the operator."""


class MigrationFailed(SchemaMismatch):
    """A migration was rolled back; those before it stay applied."""


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.number:04}_{self.name}"


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    number: int
    name: str
    checksum: str
    applied_at: datetime

    def __str__(self) -> str:
        return f"{self.number:04}_{self.name}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What stands in the database, and what would be done to it."""

    applied: Sequence[AppliedMigration]
    pending: Sequence[Migration]


def shipped(folder: Path = _FOLDER) -> Sequence[Migration]:
    """The migrations that this program carries, in order. Raises `SchemaMismatch` when their numbers are not 1, 2, 3 …"""
    migrations = []
    for expected, file in enumerate(sorted(folder.glob("*.sql")), start=1):
        match = _FILE_NAME.fullmatch(file.name)
        if match is None or int(match["number"]) != expected:
            raise SchemaMismatch(f"This Postern is damaged: its migration {file.name} stands where number {expected:04} is due")
        migrations.append(Migration(expected, match["name"], file.read_text(encoding="utf-8")))
    return migrations


async def plan(conninfo: str, migrations: Sequence[Migration] | None = None) -> Plan:
    """What `migrate` would do. Changes nothing."""
    async with _connected(conninfo) as connection:
        return await _plan(connection, shipped() if migrations is None else migrations)


async def require_current(conninfo: str, migrations: Sequence[Migration] | None = None) -> None:
    """Raises `SchemaMismatch` unless the database stands exactly where this program needs it."""
    pending = (await plan(conninfo, migrations)).pending
    if pending:
        names = ", ".join(str(migration) for migration in pending)
        raise SchemaMismatch(f"The database lacks what this Postern needs ({names}): run `postern migrate`")


async def migrate(conninfo: str, report: Report, migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """Bring the database to the end state; returns what was applied. May be repeated, and may run in several processes at once: one does
    the work, the others wait for it and find it done.
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
        # Closing does not wait; whatever transaction is open ends with it.
        with trio.CancelScope(shield=True):
            await connection.close()


async def _plan(connection: Connection, migrations: Sequence[Migration]) -> Plan:
    require_supported(connection.info.server_version, connection.info.parameter_status("server_encoding"))
    applied = await _applied(connection)
    _require_history_of(migrations, applied)
    return Plan(applied, migrations[len(applied) :])


def require_supported(server_version: int, encoding: str | None) -> None:
    """`server_version` as libpq tells it: 140005 is 14.5."""
    if server_version < OLDEST_SERVER * 10_000:
        raise SchemaMismatch(f"Postern needs PostgreSQL {OLDEST_SERVER} or later; this server is {server_version // 10_000}")
    if encoding != "UTF8":
        raise SchemaMismatch(f"Postern needs a database in UTF8; this one is in {encoding}")


def _require_history_of(migrations: Sequence[Migration], applied: Sequence[AppliedMigration]) -> None:
    for expected, there in enumerate(applied, start=1):
        if there.number != expected:
            raise SchemaMismatch(f"The database has a hole: migration {there} is applied, but number {expected:04} is not")
        if expected > len(migrations):
            newest = migrations[-1] if migrations else "none"
            raise SchemaMismatch(f"The database was migrated by a newer Postern: it has {applied[-1]}, and this one knows up to {newest}")
        ours = migrations[expected - 1]
        if (there.name, there.checksum) != (ours.name, ours.checksum):
            raise SchemaMismatch(f"Migration {there} was applied in another form than the {ours} that this Postern carries")


# Not to_regclass: within one transaction it may answer from a cache that has not heard of another's commit.
_HAS_TABLE: Final = "select exists (select from pg_class where relname = 'schema_migrations' and pg_table_is_visible(oid))"

_APPLIED: Final = "select number, name, checksum, applied_at from schema_migrations order by number"


async def _applied(connection: Connection) -> Sequence[AppliedMigration]:
    if await (await connection.execute(_HAS_TABLE)).fetchone() != (True,):
        return []
    cursor = connection.cursor(row_factory=class_row(AppliedMigration))
    return await (await cursor.execute(_APPLIED)).fetchall()


async def _apply_next(connection: Connection, migrations: Sequence[Migration], report: Report) -> Migration | None:
    """Apply the first pending migration. None when another process did it while we waited."""
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


# A role or database may carry time-outs of its own; waiting for the other process and rewriting a table may take longer.
_PATIENCE: Final = "select set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)"

_TRY_TURN: Final = "select pg_try_advisory_xact_lock(%(namespace)s, %(lock)s)"

_WAIT_FOR_TURN: Final = "select pg_advisory_xact_lock(%(namespace)s, %(lock)s)"


async def _take_turn(connection: Connection, report: Report) -> None:
    """One process at a time, until the transaction ends."""
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
        applied_at timestamptz not null default now()
    )
"""

_LOCK_TIMEOUT: Final = "select set_config('lock_timeout', %(timeout)s, true)"

_REMEMBER: Final = "insert into schema_migrations (number, name, checksum) values (%(number)s, %(name)s, %(checksum)s)"


async def _apply(connection: Connection, migration: Migration, report: Report) -> None:
    report(f"Applying {migration} …")
    started = trio.current_time()
    try:
        await connection.execute(_TABLE)
        await connection.execute(_LOCK_TIMEOUT, {"timeout": LOCK_TIMEOUT})
        # Without parameters a string of many statements goes to the server as it is; as bytes it need not be a literal.
        await connection.execute(migration.sql.encode())
        await connection.execute(_REMEMBER, {"number": migration.number, "name": migration.name, "checksum": migration.checksum})
    except errors.LockNotAvailable:
        raise
    except psycopg.Error as error:
        reason = error.diag.message_primary or str(error).partition("\n")[0]
        raise MigrationFailed(f"Migration {migration} failed and was rolled back: {reason}") from error
    report(f"Applied {migration} in {trio.current_time() - started:.2f} s")
