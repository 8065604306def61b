"""Prepares an installation to serve: the database runs, has the current schema, and grants the connecting role its rights."""

import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import structlog
import trio

from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.hosts import HOST_PATIENCE, SharedSession, refuses_for_good
from adapters.postgres.embedded import AlreadyServed, EmbeddedPostgres, EmbeddedPostgresError
from adapters.postgres.grants import rights
from adapters.postgres.migrate import SchemaMismatch, migrate, require_current
from entrypoints.assembly.configured import ensure_key_file, require_encryption_keys
from entrypoints.cli.output.progress import lines
from entrypoints.failures import DataDirectoryInUse, StartFailed
from entrypoints.settings import Settings

log = structlog.get_logger()

_LOOK_EVERY: Final = 0.5
_ANSWERS_WITHIN: Final = 5.0
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 3.0
_SAID_EVERY: Final = 3.0
_LONG_START: Final = 30
_BESIDE_THE_POOL: Final = 3
_QUOTED: Final = re.compile('".*"')


def _nothing() -> None:
    pass


def connections_of(settings: Settings, processes: int) -> int:
    """The most connections that this many serving processes open together: each process has its pool, a listener, and now and then a
    further connection.
    """
    return processes * (settings.pool_size + _BESIDE_THE_POOL)


def conninfo(settings: Settings) -> str:
    if settings.database_url is not None:
        return settings.database_url.reveal()
    return EmbeddedPostgres(settings.data_dir).application_url


@asynccontextmanager
async def running_database(
    settings: Settings, *, processes: int = 1, meanwhile: Callable[[], None] = _nothing, of_new: Callable[[], None] = _nothing
) -> AsyncIterator[None]:
    """Keeps the database running while the block runs. An embedded database is started, watched and stopped. A database of the operator's
    is waited for. Raises `StartFailed`. Raises `SettingsError` and makes no database when the encryption keys cannot be used.

    `meanwhile` is called in the thread of the event loop, which it may hold up, while the embedded database starts in another process.
    `of_new` is called in a thread of its own while a new one is made.
    """
    if not settings.embedded:
        meanwhile()
        await _wait_for(conninfo(settings), settings.database_wait.total_seconds())
        yield
        return
    # Twenty more connections for commands, backups and a person with psql.
    connections = connections_of(settings, processes) + 20
    limits = {"max_connections": str(max(connections, 100))}
    # Recovery after a crash can take minutes. A request to stop need not wait for its end.
    server = EmbeddedPostgres(
        settings.data_dir, settings=limits, on_wait=trio.from_thread.check_cancelled, on_first=partial(ensure_key_file, settings)
    )
    is_new = not server.exists()
    if is_new:
        require_encryption_keys(settings)
    await _start(server, meanwhile, of_new if is_new else _nothing)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keep_running, server, name="embedded postgres")
            yield
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(server.stop)
            log.info("embedded_postgres_stopped")


def require_installation(settings: Settings) -> None:
    """Raises `StartFailed` when the data directory is missing or belongs to another user. A command that is typed in the wrong directory
    must not make a data directory and report it healthy.
    """
    try:
        is_missing = settings.embedded and not EmbeddedPostgres(settings.data_dir).exists()
    except PermissionError as error:
        raise StartFailed(
            f"The data directory {settings.data_dir} cannot be used: {error.strerror} ({error.filename}); "
            "run this as the user who runs Postern"
        ) from error
    if is_missing:
        raise StartFailed(
            f"There is no Postern in {settings.data_dir}: set POSTERN_DATA_DIR to where it is, or make a new one with `postern serve`"
        )


@asynccontextmanager
async def reachable_database(settings: Settings, *, may_be_new: bool = False) -> AsyncIterator[None]:
    """Opens the database for a command. If `postern serve` runs the embedded database, the command uses that server. Otherwise the embedded
    database is started and runs while the block runs.
    """
    if not may_be_new:
        require_installation(settings)
    if settings.embedded and EmbeddedPostgres(settings.data_dir).is_owned():
        await _wait_for(conninfo(settings), settings.database_wait.total_seconds())
        yield
        return
    async with running_database(settings):
        yield


async def require_answer(settings: Settings, patience: float = HOST_PATIENCE) -> None:
    """Raises `StartFailed` unless the database answers within `patience` seconds, of which each host has its share, as with a server. An
    embedded database that is not running does not count as down.
    """
    if settings.embedded and not EmbeddedPostgres(settings.data_dir).is_owned():
        return
    with trio.move_on_after(patience):
        await _wait_for(conninfo(settings), 0, for_hosts=patience)
        return
    raise StartFailed(f"The database cannot be reached: no answer within {patience:g} s")


async def require_grants(settings: Settings) -> None:
    """Raises `StartFailed` when the connecting role lacks a right that serving needs. A surplus right is no failure."""
    found = await rights(conninfo(settings))
    if found.lacking:
        raise StartFailed(str(found.fault))


async def bring_up_to_date(settings: Settings) -> None:
    """Migrates the schema if the settings allow it, and checks the schema and the role's rights. Raises `StartFailed`."""
    try:
        if settings.migrate:
            began = trio.current_time()
            if done := await migrate(conninfo(settings), _report, progress=lines(_report), of_new=_report_of_new):
                seconds = round(trio.current_time() - began, 2)
                log.info("migrations_applied", count=len(done), newest=str(done[-1]), seconds=seconds)
        # Another release may have migrated further, before this start or during it.
        ahead = await require_current(conninfo(settings))
    except SchemaMismatch as error:
        raise StartFailed(str(error)) from error
    await require_grants(settings)
    if ahead:
        names = [str(one) for one in ahead]
        log.warning("schema_ahead", migrations=names, why="a newer Postern has migrated this database; this one can run on it for now")


async def require_schema_where_it_answers(settings: Settings) -> None:
    """Checks the schema for one of several processes. A child may begin long after its parent. By then, a newer release may have migrated
    the database or replaced the program. Raises `StartFailed`, but not when the database is away: a child waits for the database like the
    others.
    """
    with trio.move_on_after(_ANSWERS_WITHIN), suppress(psycopg.Error):
        await require_known_schema(settings)


async def require_known_schema(settings: Settings) -> None:
    """Raises `StartFailed`."""
    try:
        await require_current(conninfo(settings))
    except SchemaMismatch as error:
        raise StartFailed(str(error)) from error


def _report(line: str) -> None:
    log.info("migration", progress=line)


def _report_of_new(line: str) -> None:
    # A new database gets all migrations there are, in a second or two.
    log.debug("migration", progress=line)


async def _start(server: EmbeddedPostgres, meanwhile: Callable[[], None], of_new: Callable[[], None]) -> None:
    started = trio.current_time()
    try:
        failure = await _start_beside(server, meanwhile, of_new)
    except BaseException:
        # `meanwhile` has failed. The server may run by now.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(server.stop)
        raise
    if failure is not None:
        raise failure
    log.info("embedded_postgres_started", data=str(server.cluster), seconds=round(trio.current_time() - started, 2))


async def _start_beside(server: EmbeddedPostgres, meanwhile: Callable[[], None], of_new: Callable[[], None]) -> StartFailed | None:
    begun = trio.Event()

    def start() -> StartFailed | None:
        trio.from_thread.run_sync(begun.set)
        return _start_and_prepare(server)

    async def call_meanwhile() -> None:
        # Before, the call would hold up the very start of the thread.
        await begun.wait()
        meanwhile()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_say_that_it_takes_long, server)
        nursery.start_soon(call_meanwhile)
        nursery.start_soon(partial(trio.to_thread.run_sync, of_new, abandon_on_cancel=True))
        failure = await trio.to_thread.run_sync(start)
        nursery.cancel_scope.cancel()
    return failure


def _start_and_prepare(server: EmbeddedPostgres) -> StartFailed | None:
    # Returned, not raised, because a nursery would wrap it into a group.
    try:
        server.start()
    except StartFailed as error:
        return error
    except AlreadyServed as error:
        return DataDirectoryInUse(str(error))
    except EmbeddedPostgresError as error:
        return StartFailed(str(error))
    try:
        server.prepare_application()
    except BaseException as error:
        server.stop()
        if isinstance(error, psycopg.Error):
            return StartFailed(f"The embedded PostgreSQL does not answer: {' '.join(str(error).split())}")
        raise
    return None


async def _say_that_it_takes_long(server: EmbeddedPostgres) -> None:
    began = trio.current_time()
    while True:
        await trio.sleep(_SAID_EVERY)
        waited = round(trio.current_time() - began)
        # Recovery after a crash takes a while. A start that takes longer may wait for something that only a person can repair.
        tell = log.info if waited < _LONG_START else log.warning
        free = _free_mib(server.cluster)
        tell("embedded_postgres_starting", seconds=waited, said=server.last_line(), free_mib=free, log=str(server.log_file))


def _free_mib(place: Path) -> int | None:
    """The free space on the disk of `place`. The directory may be missing: a first start may take long before it makes the directory."""
    for directory in (place, *place.parents):
        with suppress(OSError):
            return shutil.disk_usage(directory).free >> 20
    return None


async def _keep_running(server: EmbeddedPostgres) -> None:
    """PostgreSQL recovers by itself when one of its backends dies. When the whole server is gone, we start it again."""
    pause = _LOOK_EVERY
    while True:
        await trio.sleep(pause)
        if server.is_running():
            pause = _LOOK_EVERY
            continue
        log.error("embedded_postgres_died", log=str(server.log_file))
        try:
            await trio.to_thread.run_sync(server.revive)
        except (EmbeddedPostgresError, OSError) as error:
            pause = min(pause * 2, _LONGEST_PAUSE)
            log.error("embedded_postgres_not_revived", error=str(error), again_in=pause)  # noqa: TRY400 - the sentence says it all
        else:
            log.warning("embedded_postgres_revived")


async def _wait_for(target: str, patience: float, *, for_hosts: float = HOST_PATIENCE) -> None:
    """Returns once the database answers. Does not wait for a database that refuses us for a lasting reason."""
    deadline, pause = trio.current_time() + patience, _FIRST_PAUSE
    while True:
        try:
            connection = await Connection.connect(target, patience=for_hosts)
        except SharedSession as error:
            raise StartFailed(f"{error}") from None
        except psycopg.OperationalError as error:
            reason = " ".join(str(error).split())
            if refuses_for_good(error) or trio.current_time() + pause > deadline:
                raise StartFailed(f"The database cannot be reached: {reason}") from None
            log.warning("database_awaited", error=reason, again_in=pause, seconds_left=round(deadline - trio.current_time()))
        except psycopg.Error as error:
            # libpq quotes the part of the URL that it could not read, and that part is often a password.
            reason = _QUOTED.sub('"***"', " ".join(str(error).split()))
            raise StartFailed(f"POSTERN_DATABASE_URL cannot be used: {reason}") from None
        else:
            with trio.CancelScope(shield=True):
                await connection.close()
            return
        await trio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
