"""`postern backup check`: verifies a backup in a scratch database, or a database that somebody else has restored."""

import argparse
import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import trio
from psycopg import sql
from psycopg.conninfo import make_conninfo

from adapters.backup_folders import BackupFolder, KeysDiffer, ManifestNewer, ManifestUnusable
from adapters.crypto.key_ring import AesGcmKeyRing
from adapters.postgres.backups.snapshots import is_served, is_the_same, server_version
from adapters.postgres.backups.tools import PostgresTools, ToolFailed
from adapters.postgres.driver.connection import Connection
from adapters.postgres.embedded import BINARIES, EmbeddedPostgres, EmbeddedPostgresError
from adapters.postgres.migrating.schema import is_whole, way_here
from core.domain.backups import BACKUP_CHECKED, BackupFile, BackupManifest, DamageKind
from core.domain.record.events import SYSTEM, Event, Target
from core.frozen import Frozen
from entrypoints.assembly.configured import key_ring
from entrypoints.cli.backups.common import (
    find_backup,
    known_migrations,
    on_database,
    require_tools,
    run_interruptibly,
    was_recorded,
)
from entrypoints.cli.backups.proof import CheckReport, prove
from entrypoints.failures import OK, StartFailed, sole
from entrypoints.installation import conninfo
from entrypoints.settings import Settings

# What is lost with the machine is not missed.
FAST: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0"}
_FULL: Final = "No space is left in {}, so the backup could not be verified"
# What PostgreSQL says of a full disk.
_SIGNS: Final = (os.strerror(errno.ENOSPC), "Check free disk space")
# PostgreSQL's own files, in bytes, and what it writes while it makes them.
_OWN: Final = 96 << 20
# Indexes.
_ROOM: Final = 1.2


class ScratchDatabase(Frozen):
    """`place` is the directory or the server that it is in, and `own` the PostgreSQL that was started for it."""

    url: str
    tools: PostgresTools
    place: str
    own: EmbeddedPostgres | None = None

    def require_room(self, reason: str = "") -> None:
        """Raises `StartFailed` if the place was full: that says nothing of the backup. `reason` is what a client was told."""
        if self.own is None and _is_full(reason):
            raise StartFailed(f"{_FULL.format(self.place)}: name another one")
        if self.own is not None and ran_full(self.own, reason):
            raise _full(self.place)


@asynccontextmanager
async def scratch_database(server: str | None, work: Path, size: int) -> AsyncIterator[ScratchDatabase]:
    """An empty database that is dropped after the block. `server` is the address of a server to make it on; without one, a PostgreSQL is
    started in a directory below `work`. `size` is how much the database will hold. Raises `StartFailed`.
    """
    if server is not None:
        async with _database_on(server) as url:
            tools = await require_tools(embedded=False, server_version=await server_version(url), restores=True)
            yield ScratchDatabase(url, tools, "the server of --scratch")
        return
    if not (BINARIES / "postgres").exists():
        raise StartFailed("This installation has no PostgreSQL of its own to restore the backup to: specify a server with --scratch")
    async with _own_server(work, size) as started, _database_on(started.url("postgres"), own=started) as url:
        yield ScratchDatabase(url, await require_tools(embedded=True, server_version=await server_version(url)), str(work), started)


@asynccontextmanager
async def _own_server(work: Path, size: int) -> AsyncIterator[EmbeddedPostgres]:
    try:
        free, needed = shutil.disk_usage(work).free, needed_room(size)
        if free < needed:
            raise StartFailed(f"{work} has {free >> 20} MiB free, and the check needs {needed >> 20}: name a larger place with --work")
        directory = Path(tempfile.mkdtemp(prefix="postern-check-", dir=work))
    except OSError as error:
        raise StartFailed(f"{work} cannot be used for the check: {error.strerror}") from None
    if os.geteuid() == 0:
        directory.chmod(0o711)  # noqa: ASYNC240 - at once; another user runs the server then
    own = EmbeddedPostgres(directory, settings=FAST, on_wait=trio.from_thread.check_cancelled)
    try:
        try:
            await trio.to_thread.run_sync(own.start)
        except EmbeddedPostgresError as error:
            raise (_full(str(work)) if _is_full(str(error)) else StartFailed(str(error))) from None
        try:
            yield own
        except psycopg.Error as error:
            raise (_full(str(work)) if ran_full(own, str(error)) else error) from None
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(own.stop)
            await trio.to_thread.run_sync(lambda: shutil.rmtree(directory, ignore_errors=True))


def _is_full(reason: str) -> bool:
    return any(sign in reason for sign in _SIGNS)


def needed_room(size: int) -> int:
    """In bytes, for a database of this size on a server of its own."""
    return int(_OWN + size * _ROOM)


def ran_full(own: EmbeddedPostgres | None, reason: str) -> bool:
    """A server without room for its log ends, and its clients are told no more than that their connection was lost."""
    return _is_full(reason) or (own is not None and _is_full(own.log_file.read_text(errors="replace")))


def _full(work: str) -> StartFailed:
    return StartFailed(f"{_FULL.format(work)}: name a larger place with --work")


@asynccontextmanager
async def _database_on(server: str, *, own: EmbeddedPostgres | None = None) -> AsyncIterator[str]:
    """`own` is the server if it was started for the check, and ends with it."""
    plain = f"postern_check_{secrets.token_hex(6)}"
    name = sql.Identifier(plain)
    try:
        async with await Connection.connect(server) as connection:
            await connection.execute(sql.SQL("create database {} encoding 'UTF8' template template0").format(name))
    except psycopg.errors.InsufficientPrivilege:
        raise StartFailed("The role of --scratch has no permission to create databases on that server") from None
    except psycopg.Error as error:
        if own is not None and ran_full(own, str(error)):
            raise
        raise StartFailed(f"The scratch database could not be created: {' '.join(str(error).split())}") from None
    try:
        yield make_conninfo(server, dbname=plain)
    finally:
        if own is None:
            with trio.CancelScope(shield=True):
                async with await Connection.connect(server) as connection:
                    await connection.execute(sql.SQL("drop database if exists {} with (force)").format(name))


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    return run_interruptibly(partial(_run, arguments, settings))


async def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    folder = None
    if arguments.database is None or arguments.backup is not None or arguments.places is not None:
        folder = find_backup(settings, arguments.places, arguments.backup)
    named = "the restored database" if folder is None else folder.path.name
    report = CheckReport(named, as_json=arguments.json)
    try:
        if arguments.database is not None:
            await check_database(settings, arguments.database, folder, report, signs_in=not arguments.no_sign_in)
        elif folder is not None:
            work = Path(tempfile.gettempdir() if arguments.work is None else arguments.work)
            await check_backup(settings, folder, report, scratch=arguments.scratch, work=work)
    except (psycopg.Error, OSError, BaseExceptionGroup) as error:
        cause = sole(error)
        if isinstance(cause, psycopg.Error):
            raise StartFailed(f"The check could not be finished: {' '.join(str(cause).split())}") from None
        if isinstance(cause, OSError):
            raise StartFailed(f"The check could not be finished: {cause.strerror}: {cause.filename or tempfile.gettempdir()}") from None
        raise cause from None
    report.end()
    if report.status == OK:
        event = Event(BACKUP_CHECKED, SYSTEM, Target("backup", named), details={"proved": report.proves_all})
        if not await was_recorded(settings, event) and not arguments.json:
            print("The check could not be recorded in the audit log, so `sso_backup_checked_timestamp_seconds` is unchanged.")
    return report.status


async def check_backup(settings: Settings, folder: BackupFolder, report: CheckReport, *, scratch: str | None, work: Path) -> None:
    """Reports damage, and raises `StartFailed` when the check cannot be made."""
    manifest = await verified(folder, key_ring(settings), report)
    if manifest is None:
        return
    if not is_known(manifest.database.migrations, report):
        return
    async with scratch_database(scratch, work, manifest.database.size) as made:
        try:
            await made.tools.restore(made.url, folder.dump)
        except ToolFailed as error:
            made.require_room(str(error))
            report.damaged(DamageKind.DUMP, f"the dump cannot be restored: {error}")
            return
        report.passed(DamageKind.DUMP, f"{manifest.dump.size / (1 << 20):.1f} MiB, restored into a scratch database")
        await prove(on_database(settings, made.url), manifest, report, may_migrate=True)
        if report.damages:
            made.require_room()


async def check_database(settings: Settings, url: str, folder: BackupFolder | None, report: CheckReport, *, signs_in: bool) -> None:
    """Proves a database that was restored by other means. With a backup, the database must contain exactly what that backup contains."""
    await _require_copy(settings, url)
    manifest = None
    if folder is not None:
        manifest = await verified(folder, key_ring(settings), report, reads_files=False)
        if manifest is None:
            return
    tools = await require_tools(embedded=False, server_version=await server_version(url))

    async def read_all() -> None:
        try:
            # Counting may read indexes alone. This reads every page of every table, so checksums of pages are compared, too.
            await tools.read_all(url)
        except ToolFailed as error:
            report.damaged(DamageKind.ROWS, f"the database cannot be read: {error}")

    await prove(on_database(settings, url), manifest, report, may_migrate=False, signs_in=signs_in, stays=True, read_all=read_all)


async def verified(folder: BackupFolder, keyring: AesGcmKeyRing, report: CheckReport, *, reads_files: bool = True) -> BackupManifest | None:
    """The manifest, if it and the files are as they were written. Reports the damage otherwise."""
    try:
        manifest = folder.verified_manifest(keyring)
    except KeysDiffer as error:
        report.damaged(DamageKind.KEYS, str(error))
        return None
    except ManifestNewer as error:
        report.cannot_read(f"The backup was created by a newer version of Postern: {error}. Check it with that version")
        return None
    except ManifestUnusable as error:
        report.damaged(DamageKind.MANIFEST, str(error))
        return None
    report.passed(DamageKind.MANIFEST, f"of {manifest.made_at:%Y-%m-%d %H:%M} UTC, sealed with {keyring.current_key_id()} or an older key")
    if reads_files:
        await _compare(folder, manifest.dump, DamageKind.DUMP, report)
        if manifest.sealed_keys is not None:
            await _compare(folder, manifest.sealed_keys, DamageKind.KEYS, report)
    return None if report.damages else manifest


async def _compare(folder: BackupFolder, expected: BackupFile, kind: DamageKind, report: CheckReport) -> None:
    try:
        found = await trio.to_thread.run_sync(folder.weigh, expected.name, trio.from_thread.check_cancelled)
    except FileNotFoundError:
        report.damaged(kind, f"{expected.name} is missing")
        return
    except OSError as error:
        report.damaged(kind, f"{expected.name} cannot be read: {error.strerror}")
        return
    if found.size != expected.size:
        change = "truncated" if found.size < expected.size else "too long"
        report.damaged(kind, f"{expected.name} is {change}: it has {found.size} bytes, the manifest lists {expected.size}")
    elif found.sha256 != expected.sha256:
        report.damaged(kind, f"{expected.name} was altered: its contents differ from the manifest")


def is_known(migrations: Sequence[str], report: CheckReport) -> bool:
    """Whether this program knows the schema. An older one is brought up to date in the scratch database."""
    if is_whole(migrations):
        return True
    if (way := way_here(migrations)) is not None:
        report.cannot_read(way.of_backup)
        return False
    ours = known_migrations()
    for number, migration in enumerate(migrations):
        name = migration.partition(" ")[0]
        if number >= len(ours):
            report.cannot_read(f"The backup was created by a newer version of Postern, with {name}: check it with that version")
            return False
        if migration != ours[number]:
            report.cannot_read(
                f"The backup was created by another Postern: its {name} is not that of this version. "
                "Check it with the version that created it"
            )
            return False
    return True


async def _require_copy(settings: Settings, url: str) -> None:
    """Raises `StartFailed` for the database that this installation serves: a check writes there."""
    if await is_served(url):
        raise StartFailed("A running Postern uses this database: `postern backup check --database` is for a restored copy")
    if settings.embedded:
        return  # its socket is in the data directory, and only `postern serve` runs it
    try:
        same = await is_the_same(conninfo(settings), url)
    except psycopg.OperationalError:
        return  # the own database is away, and this one answers
    if same:
        raise StartFailed("This is the database of this installation, not a copy: restore elsewhere, and name that database")
