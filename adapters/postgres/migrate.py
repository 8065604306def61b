"""Migrations: forward-only files `NNNN_name.sql`. One process at a time applies a migration, once. A migration is one transaction, unless
its first line ends with `, in steps`: then it carries what would hold a table for long in one transaction (`migrating/steps.py`).

After the migrations come the views and functions that stand in one file, `schema/replaceable.sql` (`migrating/schema.py`).

The first line of each migration says which older processes may go on running beside it (docs/decisions/0022): `-- additive` for all, `--
additive since NNNN` for those that carry migration NNNN, `-- breaking` for none.

Every error message here is a sentence for the operator who starts or migrates an installation.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import trio
from psycopg import errors, sql
from psycopg.rows import class_row

from adapters.postgres import locks
from adapters.postgres.driver.connection import Connection
from adapters.postgres.listening_processes import ListeningProcess, listening_processes
from adapters.postgres.migrating.forecast import Effect, Forecast, LockMode, LongTransaction, forecast, obstacles, read_effects, rows_of
from adapters.postgres.migrating.in_steps import BegunOtherwise, KeptBusy, Steps, beside, done_of
from adapters.postgres.migrating.names import found_in, listed, names_in
from adapters.postgres.migrating.schema import (
    TAKEN_ON,
    Edition,
    NotReplaceable,
    Replaceable,
    WayHere,
    edition_of,
    is_whole,
    replaceable_of,
    way_here,
)
from adapters.postgres.migrating.steps import NotAStep, Step, steps_of
from adapters.postgres.migrating.watch import MigrationWatch
from core.frozen import Frozen
from ports.jobs import ProgressDisplay, unseen

OLDEST_SERVER: Final = 14

# While a statement waits for a table lock, every later query on the table waits behind this statement. So a migration takes all its locks
# within this time, in seconds, or lets go of them and tries again.
LOCK_TIMEOUT: Final = 0.4
# The time for one of many tables. On a busy machine, less would be too little for the end of a short transaction.
LEAST_LOCK_TIMEOUT: Final = 0.1
LOCK_ATTEMPTS: Final = 60
LOCK_PAUSE: Final = 2.0
# Nobody but VACUUM and other changes of the schema waits behind the lock that comes before these locks.
FIRST_LOCK_TIMEOUT: Final = 5.0
TURN_PAUSE: Final = 0.2

EFFECTS: Final = "effects.toml"
_FOLDER: Final = Path(__file__).parent / "migrations"
_REPLACEABLE: Final = Path(__file__).parent / "schema" / "replaceable.sql"
_MOST_NAMED: Final = 3
_FILE_NAME: Final = re.compile(r"(?P<number>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_HEADER: Final = re.compile(r"-- (?:(?P<breaking>breaking)|additive(?: since (?P<since>\d{4}))?)(?P<in_steps>, in steps)?\n")
_CHANGES: Final = re.compile(r"\A(?:--.*\n)*-- changes rows of (?P<tables>\w+(?:, ?\w+)*)\.?\n")

Report = Callable[[str], None]


class SchemaMismatch(Exception):
    """The database cannot be served or migrated as it is. The message is one sentence for the operator."""


class MigrationFailed(SchemaMismatch):
    """A migration was rolled back. Earlier migrations stay applied."""


class FormerSchema(SchemaMismatch):
    """The database has the whole schema of before 0.2.0, so `migrate` takes it on."""


class OlderSchema(SchemaMismatch):
    """The database has a schema of before 0.2.0 that is not taken on, and the message leads to the commits that bring it here."""

    def __init__(self, way: WayHere) -> None:
        super().__init__(str(way))
        self.way = way


class OlderProcessesRun(SchemaMismatch):
    """Processes that serve could not go on beside a migration, which is therefore not applied."""

    def __init__(self, what: str, processes: Sequence[ListeningProcess]) -> None:
        count = len(processes)
        super().__init__(
            f"{what} while {'an older process serves' if count == 1 else f'{count} older processes serve'} this database "
            f"({listed_processes(processes)}): stop {'it' if count == 1 else 'them'} first, or add --although-older-processes-run to "
            "`postern migrate`"
        )


def listed_processes(processes: Sequence[ListeningProcess]) -> str:
    """For an operator: the newest migration that each carries, and its host and beginning if our role may see them."""
    more = f" and {len(processes) - _MOST_NAMED} more" if len(processes) > _MOST_NAMED else ""
    return f"carrying {', '.join(map(str, processes[:_MOST_NAMED]))}{more}"


class Migration(Frozen):
    number: int
    name: str
    sql: str
    needs: int | None = None
    """The number of the migration that an older process must carry to run beside this migration. With 0, any process may run. With None,
    only processes that carry this migration may run.
    """
    steps: Sequence[Step] = ()
    """Of a migration that is not one transaction."""
    effects: Sequence[Effect] = ()
    """What a migration that is one transaction does to the tables that are there before it."""

    @property
    def changed_tables(self) -> Sequence[str]:
        """The tables whose rows of before it changes or removes, as a line of its header says: `-- changes rows of users, sessions`."""
        match = _CHANGES.search(self.sql)
        return [name.strip() for name in match["tables"].split(",")] if match is not None else ()

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
    taken_on: Migration | None = None
    """The first migration, if `migrate` writes it down in place of those that have made the schema of before 0.2.0."""
    edition: Edition | None = None
    """Of the views and functions that are there. None: what the migrations have made."""
    replaceable: Replaceable | None = None
    """The views and functions, if `migrate` would replace those that are there."""
    newer: Edition | None = None
    """The edition that is there, if it is of a newer Postern. This program can run on it."""

    @property
    def lacking(self) -> Sequence[Migration | Replaceable]:
        """All that `migrate` would apply, in order."""
        return [*self.pending, *([] if self.replaceable is None else [self.replaceable])]

    @property
    def beyond(self) -> Sequence[AppliedMigration | Edition]:
        """All that a newer Postern has applied."""
        return [*self.ahead, *([] if self.newer is None else [self.newer])]


def shipped(folder: Path | None = None) -> Sequence[Migration]:
    """The migrations that this program carries, in order. Raises `SchemaMismatch` when their numbers are not 1, 2, 3 …, or when a migration
    does not say which older processes may run beside it.
    """
    folder = folder or _FOLDER
    migrations = []
    effects = _effects(folder)
    for expected, file in enumerate(sorted(folder.glob("*.sql")), start=1):
        match = _FILE_NAME.fullmatch(file.name)
        if match is None or int(match["number"]) != expected:
            raise SchemaMismatch(f"This Postern is damaged: its migration {file.name} stands where number {expected:04} is due")
        sql = file.read_text(encoding="utf-8")
        needs, steps = _needs(file.name, expected, sql), _steps(file.name, sql)
        migrations.append(Migration(expected, match["name"], sql, needs, steps, effects.get(file.stem, ())))
    return migrations


def shipped_views_and_functions(file: Path | None = None) -> Replaceable:
    """Those that this program carries. Raises `SchemaMismatch` when their file does not say its number."""
    file = file or _REPLACEABLE
    try:
        return replaceable_of(file.read_text(encoding="utf-8"))
    except NotReplaceable as fault:
        raise SchemaMismatch(f"This Postern is damaged: its views and functions, {file.name}, {fault}") from None


class _Carried(Frozen):
    """What a program would apply. A test with migrations of its own has no views and functions, or its own."""

    migrations: Sequence[Migration]
    replaceable: Replaceable | None


def _carried(migrations: Sequence[Migration] | None, replaceable: Replaceable | None) -> _Carried:
    if migrations is None:
        return _Carried(shipped(), replaceable or shipped_views_and_functions())
    return _Carried(migrations, replaceable)


def _effects(folder: Path) -> Mapping[str, Sequence[Effect]]:
    file = folder / EFFECTS
    return read_effects(file.read_text(encoding="utf-8")) if file.exists() else {}


def _steps(file: str, sql: str) -> Sequence[Step]:
    header = _HEADER.match(sql)
    if header is None or not header["in_steps"]:
        return ()
    try:
        return steps_of(sql)
    except NotAStep as fault:
        raise SchemaMismatch(f"This Postern is damaged: its migration {file} is not in steps: {fault}") from None


def _needs(file: str, number: int, sql: str) -> int | None:
    header = _HEADER.match(sql)
    if header is None:
        raise SchemaMismatch(
            f"This Postern is damaged: its migration {file} does not begin with `-- additive`, `-- additive since NNNN` or `-- breaking`"
        )
    if header["breaking"]:
        return None
    since = int(header["since"] or 0)
    if since >= number:
        raise SchemaMismatch(f"This Postern is damaged: its migration {file} cannot be additive since {since:04}")
    return since


async def plan(conninfo: str, migrations: Sequence[Migration] | None = None, replaceable: Replaceable | None = None) -> MigrationPlan:
    """What is there, and what this program lacks. Changes nothing. Raises `FormerSchema` for a schema that `migrate` would take on."""
    async with _connected(conninfo) as connection:
        return await _plan(connection, _carried(migrations, replaceable))


async def plan_of_all(conninfo: str) -> MigrationPlan:
    """All that `migrate` would do, the taking on of a former schema included. Changes nothing."""
    try:
        return await plan(conninfo)
    except FormerSchema:
        first, *others = shipped()
        return MigrationPlan((), others, taken_on=first, replaceable=shipped_views_and_functions())


async def older_processes(conninfo: str, newest: int | None = None) -> Sequence[ListeningProcess]:
    """The processes that serve this database and carry fewer migrations than `newest`, or than this program."""
    number = len(shipped()) if newest is None else newest
    async with _connected(conninfo) as connection:
        return _older(await listening_processes(connection), number)


def _older(processes: Sequence[ListeningProcess], number: int) -> Sequence[ListeningProcess]:
    return [one for one in processes if one.migration is None or one.migration < number]


async def _require_none_ends(connection: Connection, migrations: Sequence[Migration], *, taken_on: Migration | None = None) -> None:
    """Raises `OlderProcessesRun` if a process serves that could not go on beside one of these migrations."""
    processes = await listening_processes(connection)
    if taken_on is not None and (older := _older(processes, len(shipped()))):
        raise OlderProcessesRun(f"The schema of before 0.2.0 cannot be taken on as {taken_on}", older)
    for migration in migrations:
        ending = [one for one in processes if not one.runs_beside(migration.number, migration.needs)]
        if ending:
            raise OlderProcessesRun(f"Migration {migration} is not applied ({migration.promise})", ending)


class Outlook(Frozen):
    """What the pending migrations mean on this database. `obstacles`: transactions that they would have to wait for at this moment."""

    forecasts: Sequence[Forecast]
    obstacles: Sequence[LongTransaction]


async def outlook(conninfo: str, pending: Sequence[Migration], replaceable: Replaceable | None = None) -> Outlook:
    """Changes nothing and locks nothing."""
    async with _connected(conninfo) as connection:
        touched = {one.table for migration in pending for one in (*migration.effects, *migration.steps)}
        rows = await rows_of(connection, sorted(touched))
        wanted: dict[str, LockMode] = {} if replaceable is None else dict.fromkeys(replaceable.views, LockMode.ACCESS_EXCLUSIVE)
        for effect in (effect for migration in pending for effect in migration.effects if effect.table in rows):
            wanted[effect.table] = max(effect.lock, wanted.get(effect.table, effect.lock), key=lambda mode: mode.strength)
        in_steps = any(migration.steps for migration in pending)
        in_the_way = await obstacles(connection, wanted, everybody=in_steps) if wanted or in_steps else []
        lasting = [one for one in in_the_way if not one.gives_way]
        forecasts = [forecast(one.effects, one.steps, rows, await done_of(connection, one.number) if one.steps else {}) for one in pending]
        return Outlook(forecasts, lasting)


async def require_current(
    conninfo: str, migrations: Sequence[Migration] | None = None, replaceable: Replaceable | None = None
) -> Sequence[AppliedMigration | Edition]:
    """Raises `SchemaMismatch` unless this program can run on the database as it is. Returns what a newer Postern has applied."""
    found = await plan(conninfo, migrations, replaceable)
    if found.lacking:
        names = ", ".join(str(one) for one in found.lacking)
        raise SchemaMismatch(f"The database lacks what this Postern needs ({names}): run `postern migrate`")
    return found.beyond


async def migrate(
    conninfo: str,
    report: Report,
    migrations: Sequence[Migration] | None = None,
    progress: ProgressDisplay = unseen,
    replaceable: Replaceable | None = None,
    *,
    of_new: Report | None = None,
    although_older_processes_run: bool = False,
    watch: MigrationWatch | None = None,
) -> list[Migration]:
    """Bring the database to the end state; returns the applied migrations. May be repeated, and may run in several processes at once: one
    process does the work, the others wait for that process and find the work done. `of_new` hears of each migration of a new database, in
    place of `report`. Raises `OlderProcessesRun` before anything is applied, unless the operator has agreed.
    """
    known = _carried(migrations, replaceable)
    done: list[Migration] = []
    async with _connected(conninfo) as connection:
        with suppress(FormerSchema):
            if not (await _plan(connection, known)).lacking:
                return done
        await _take_turn(connection, report)
        plan = await _plan_here(connection, known, report, agreed=although_older_processes_run)
        # Nobody uses the tables of a new database.
        in_use = bool(plan.applied)
        if of_new is not None and not in_use:
            report = of_new
        if not although_older_processes_run:
            await _require_none_ends(connection, plan.pending)
        for migration in plan.pending:
            report(f"Applying {migration} …")
            # Since the first look, an older process may have started, while a migration took hours.
            if done and not although_older_processes_run:
                await _require_none_ends(connection, [migration])
            started = trio.current_time()
            with _explained(migration, connection):
                if migration.steps:
                    await _apply_in_steps(connection, conninfo, migration, report, progress)
                else:
                    await _apply(connection, migration, report, progress, watch, in_use=in_use)
            seconds = trio.current_time() - started
            report(f"Applied {migration} in {seconds:.2f} s")
            if watch is not None:
                watch.ends(str(migration), seconds)
            done.append(migration)
        if plan.replaceable is not None:
            await _replace(connection, plan.replaceable, report, watch, in_use=in_use)
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


async def _plan(connection: Connection, known: _Carried) -> MigrationPlan:
    require_supported(connection.info.server_version, connection.info.parameter_status("server_encoding"))
    with _may_see(connection):
        applied = await _applied(connection)
        if not applied:
            applied = await _require_free_names(connection, known)
        edition = await edition_of(connection)
    lines = [f"{one} {one.checksum}" for one in applied]
    if is_whole(lines):
        raise FormerSchema(TAKEN_ON)
    if (way := way_here(lines)) is not None:
        raise OlderSchema(way)
    migrations, ours = known.migrations, known.replaceable
    _require_history_of(migrations, applied)
    _require_form_of(ours, edition)
    return MigrationPlan(
        applied,
        migrations[len(applied) :],
        applied[len(migrations) :],
        edition=edition,
        replaceable=ours if ours is not None and (edition is None or edition.number < ours.edition.number) else None,
        newer=edition if ours is not None and edition is not None and edition.number > ours.edition.number else None,
    )


async def _require_free_names(connection: Connection, known: _Carried) -> Sequence[AppliedMigration]:
    """Nothing is written beside what another program has made. Returns what has been applied meanwhile."""
    statements = [migration.sql for migration in known.migrations]
    names = names_in([*statements, *([] if known.replaceable is None else [known.replaceable.sql])])
    if not (taken := await found_in(connection, names)):
        return []
    # Another process may have migrated since we read the list, which comes in one transaction with the first names.
    if applied := await _applied(connection):
        return applied
    raise SchemaMismatch(
        f"The database has {listed(taken)}, but no migrations of Postern: it belongs to another program, or a restore into it is under way "
        "or has failed, so give Postern an empty database"
    )


async def _plan_here(connection: Connection, known: _Carried, report: Report, *, agreed: bool) -> MigrationPlan:
    """The plan, for the process whose turn it is. Takes a former schema on."""
    try:
        return await _plan(connection, known)
    except FormerSchema:
        first = known.migrations[0]
        if not agreed:
            await _require_none_ends(connection, (), taken_on=first)
        report(f"Taking the schema of before 0.2.0 on as {first} …")
        async with connection.transaction():
            await connection.execute("delete from schema_migrations")
            await remember(connection, first)
        return await _plan(connection, known)


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


def _require_form_of(ours: Replaceable | None, there: Edition | None) -> None:
    """One number is one form: otherwise two programs would replace each other's views and functions in turn."""
    if ours is not None and there is not None and there.number == ours.edition.number and there.digest != ours.edition.digest:
        raise SchemaMismatch(f"The {there} was applied in another form than the one that this Postern carries")


# The statement does not use to_regclass, because within one transaction to_regclass may answer from a cache that does not know of another
# transaction's commit. None: there is no such table.
_COLUMNS: Final = """
    select (
               select array_agg(attname || ' ' || format_type(atttypid, null))
                 from pg_attribute
                where attrelid = pg_class.oid and attnum > 0 and not attisdropped
           )
      from pg_class
     where relname = 'schema_migrations' and relnamespace = to_regnamespace('public')
"""
# The oldest schemas of before 0.2.0 lack `needs`.
_OUR_COLUMNS: Final = frozenset({"number integer", "name text", "checksum text", "applied_at timestamp with time zone"})

# A role that may not use the schema sees no table in it. We refuse such a database; otherwise we would take it for an empty one.
_USE_SCHEMA: Final = "select to_regclass('public.schema_migrations')"

# The statement reads `needs` through JSON, because the oldest schemas of before 0.2.0 lack the column.
_APPLIED: Final = """
    select number, name, checksum, applied_at, (to_jsonb(schema_migrations) ->> 'needs')::integer as needs
      from public.schema_migrations
     order by number
"""


async def _applied(connection: Connection) -> Sequence[AppliedMigration]:
    row = await (await connection.execute(_COLUMNS)).fetchone()
    if row is None:
        await connection.execute(_USE_SCHEMA)
        return []
    if not _OUR_COLUMNS.issubset(row[0] or ()):
        raise SchemaMismatch(
            "The database has a table schema_migrations of another program, without the columns of Postern's: "
            "give Postern an empty database"
        )
    cursor = connection.cursor(row_factory=class_row(AppliedMigration))
    return await (await cursor.execute(_APPLIED)).fetchall()


@contextmanager
def _may_see(connection: Connection) -> Iterator[None]:
    try:
        yield
    except errors.InsufficientPrivilege as error:
        raise SchemaMismatch(
            f"The database role {connection.info.user} may not see what is there ({error.diag.message_primary}): "
            "`postern grants`, as the owner of the tables, prints what it needs"
        ) from error


# The operator may have set timeouts for the role or the database. Waiting for another process, or rewriting a table, may take longer than
# these timeouts allow.
_PATIENCE: Final = "select set_config('lock_timeout', '0', false), set_config('statement_timeout', '0', false)"

_TRY_TURN: Final = "select pg_try_advisory_lock(%(namespace)s, %(lock)s)"


async def _take_turn(connection: Connection, report: Report) -> None:
    """Wait until no other process migrates. The lock lasts until the connection ends. We ask again and again: a statement that waits for
    the lock is a transaction, and the building of an index waits for every transaction, so the two would wait for each other.
    """
    lock = {"namespace": locks.NAMESPACE, "lock": locks.MIGRATION}
    await connection.execute(_PATIENCE)
    told = False
    while await (await connection.execute(_TRY_TURN, lock)).fetchone() != (True,):
        if not told:
            report("Another process is migrating; waiting for it …")
            told = True
        await trio.sleep(TURN_PAUSE)


_TABLE: Final = """
    create table if not exists schema_migrations (
        number     integer     primary key,
        name       text        not null,
        checksum   text        not null,               -- SHA-256 of the file, in hexadecimal
        applied_at timestamptz not null default now(),
        needs      integer                             -- the migration that a process must carry to run beside this one; null: this one
    );
"""

_LOCK_TIMEOUT: Final = "select set_config('lock_timeout', %(timeout)s, true)"

_REMEMBER: Final = "insert into schema_migrations (number, name, checksum, needs) values ({}, {}, {}, {})"


@contextmanager
def _explained(migration: Migration, connection: Connection) -> Iterator[None]:
    """Turns errors of the server into sentences."""
    kept = "stopped; the steps that are done stay, and the next try goes on after them" if migration.steps else "failed and was rolled back"
    with _failed(f"Migration {migration} {kept}", connection):
        try:
            yield
        except errors.CheckViolation as error:
            raise MigrationFailed(
                f"Migration {migration} {kept}: rows of {error.diag.table_name} contradict {error.diag.constraint_name}, and "
                'docs/operations/upgrades-and-keys.md says under "Upgrade" what to do with them'
            ) from error
        except BegunOtherwise:
            raise MigrationFailed(
                f"Some steps of {migration} were carried out in another form than the one that this Postern carries"
            ) from None
        except KeptBusy:
            raise MigrationFailed(f"Migration {migration} {kept}: others kept using the rows of a batch") from None


@contextmanager
def _failed(failure: str, connection: Connection) -> Iterator[None]:
    """`failure` is the beginning of the sentence."""
    try:
        yield
    except errors.InsufficientPrivilege as error:
        raise MigrationFailed(
            f"The database role {connection.info.user} may not migrate ({error.diag.message_primary}): "
            "POSTERN_DATABASE_URL has to name the role that owns the tables"
        ) from error
    except psycopg.Error as error:
        reason = error.diag.message_primary or str(error).partition("\n")[0]
        raise MigrationFailed(f"{failure}: {reason}") from error


async def _apply(
    connection: Connection, migration: Migration, report: Report, progress: ProgressDisplay, watch: MigrationWatch | None, *, in_use: bool
) -> None:
    wanted = {effect.table: effect.lock for effect in migration.effects if effect.lock.stops} if in_use else {}
    await _patiently(connection, wanted, partial(_try, connection, migration, wanted, progress, watch), report)


async def _patiently(
    connection: Connection, wanted: Mapping[str, LockMode], attempt: Callable[[], Awaitable[None]], report: Report
) -> None:
    """Tries until the transaction has all its locks. Nothing of a failed try stays."""
    told: Sequence[int | None] = ()
    busy: Sequence[LongTransaction] = ()
    for number in range(1, LOCK_ATTEMPTS + 1):
        if number > 1:
            await trio.sleep(LOCK_PAUSE)
        # Everybody would have to wait behind us while we wait for a long transaction. So we wait for its end before we ask.
        busy = await obstacles(connection, wanted) if wanted else ()
        if all(one.gives_way for one in busy):
            with suppress(errors.LockNotAvailable):
                await attempt()
                return
            busy = await obstacles(connection, wanted) if wanted else ()
        if number == 1 or told != [one.pid for one in busy]:
            report(f"A table is in use{_by(busy)}; trying again …")
            told = [one.pid for one in busy]
    raise MigrationFailed(f"A migration could not get a table to itself in {LOCK_ATTEMPTS} attempts{_by(busy)}; nothing of it was kept")


def _by(busy: Sequence[LongTransaction]) -> str:
    return f" by {', '.join(str(one) for one in busy[:_MOST_NAMED])}" if busy else ""


async def _try(
    connection: Connection, migration: Migration, wanted: Mapping[str, LockMode], progress: ProgressDisplay, watch: MigrationWatch | None
) -> None:
    """Raises `LockNotAvailable` when somebody has a table."""
    async with connection.transaction(), beside(partial(_tick, migration, progress)):
        await connection.execute(_LOCK_TIMEOUT, {"timeout": _milliseconds(FIRST_LOCK_TIMEOUT)})
        for table in wanted:
            # Autovacuum gives way to us after a second (deadlock_timeout). This lock lets us wait for that without stopping anybody else.
            await connection.execute(_locking(table, LockMode.SHARE_UPDATE_EXCLUSIVE))
        if watch is not None:
            await watch.begins(connection)
        # The rest is one message: while the tables are locked, nobody waits for this process or the network. The server takes a string of
        # many statements without parameters as it is, and as bytes it need not be a literal string.
        work = (_locks(wanted).as_string(connection), migration.sql, _remembering(migration).as_string(connection))
        await connection.execute("\n;\n".join(work).encode())
        if watch is not None:
            await watch.holds(connection)


def _locks(wanted: Mapping[str, LockMode]) -> sql.Composed:
    """Takes the locks of the whole migration at its beginning: none is missing after half of the work, and the waits do not add up."""
    share = max(LOCK_TIMEOUT / max(len(wanted), 1), LEAST_LOCK_TIMEOUT)
    locking = [_locking(table, mode) for table, mode in wanted.items()]
    return sql.SQL(";\n").join([_within(share), *locking, _within(LOCK_TIMEOUT)])


def _within(seconds: float) -> sql.Composed:
    return sql.SQL("set local lock_timeout = {}").format(sql.Literal(_milliseconds(seconds)))


def _locking(table: str, mode: LockMode) -> sql.Composed:
    return sql.SQL("lock table {} in {} mode").format(sql.Identifier(table), sql.SQL(mode.value))


def _milliseconds(seconds: float) -> str:
    return f"{max(round(seconds * 1000), 1)}ms"


async def _tick(migration: Migration, progress: ProgressDisplay) -> None:
    """Nobody knows how far one statement is. But it should not look as if nothing happened."""
    with progress(f"Applying {migration}", None, "") as advance:
        while True:
            await trio.sleep(1)
            advance(0)


async def _replace(connection: Connection, replaceable: Replaceable, report: Report, watch: MigrationWatch | None, *, in_use: bool) -> None:
    """Replaces the views and functions, all or none."""
    wanted = dict.fromkeys(replaceable.views, LockMode.ACCESS_EXCLUSIVE)
    report(f"Applying {replaceable} …")
    started = trio.current_time()
    with _failed(f"The {replaceable} failed and was rolled back", connection):
        await _patiently(connection, wanted if in_use else {}, partial(_try_to_replace, connection, replaceable, watch), report)
    seconds = trio.current_time() - started
    report(f"Applied {replaceable} in {seconds:.2f} s")
    if watch is not None:
        watch.ends(str(replaceable), seconds)


async def _try_to_replace(connection: Connection, replaceable: Replaceable, watch: MigrationWatch | None) -> None:
    """Raises `LockNotAvailable` when somebody reads a view. `lock table` would lock the tables of a view as well, so the statement that
    replaces a view asks for it, and has its share of the time. All of it is one message, as with a migration.
    """
    share = max(LOCK_TIMEOUT / max(len(replaceable.views), 1), LEAST_LOCK_TIMEOUT)
    async with connection.transaction():
        if watch is not None:
            await watch.begins(connection)
        await connection.execute(f"{_within(share).as_string(connection)}\n;\n{replaceable.applied()}".encode())
        if watch is not None:
            await watch.holds(connection)


async def _apply_in_steps(connection: Connection, conninfo: str, migration: Migration, report: Report, progress: ProgressDisplay) -> None:
    steps = Steps(connection, conninfo, migration.number, migration.checksum, report, progress)
    await steps.carry_out(migration.steps)
    async with connection.transaction():
        await steps.forget()
        await remember(connection, migration)


async def remember(connection: Connection, migration: Migration) -> None:
    """Records the migration as applied."""
    await connection.execute(_remembering(migration))


def _remembering(migration: Migration) -> sql.Composed:
    values = (migration.number, migration.name, migration.checksum, migration.needs)
    return sql.SQL(_TABLE + _REMEMBER).format(*(sql.Literal(value) for value in values))
