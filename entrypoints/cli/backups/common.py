"""What the commands about backups share: where backups are, the programs that write and read them, and notes in the audit log."""

import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import psycopg
import trio

from adapters.backup_folders import BackupFolder, kept_backups
from adapters.postgres.backups.tools import PostgresTools, ToolsUnusable
from adapters.postgres.migrate import shipped
from core.domain.errors import Refusal
from core.domain.record.events import Event
from core.domain.secrets import Secret
from entrypoints.bootstrap import open_postern
from entrypoints.failures import USAGE, StartFailed, sole
from entrypoints.installation import reachable_database, require_known_schema
from entrypoints.settings import Settings, SettingsError

_PLACES: Final = "backups"

T = TypeVar("T")


class NoSuchBackup(StartFailed):
    status = USAGE


def run_interruptibly(work: Callable[[], Awaitable[T]]) -> T:
    """Runs the command. SIGTERM ends it as Ctrl-C does, so that scratch databases and unfinished files go."""

    async def interrupt(inside: trio.CancelScope, received: list[int]) -> None:
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            async for number in signals:
                received.append(number)
                inside.cancel()

    async def both() -> T:
        received: list[int] = []
        results: list[T] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(interrupt, nursery.cancel_scope, received)
            results.append(await work())
            nursery.cancel_scope.cancel()
        if received:
            raise KeyboardInterrupt
        return results[0]

    try:
        return trio.run(both)
    except BaseExceptionGroup as group:
        raise sole(group) from None


def places_of(settings: Settings, given: str | None) -> Path:
    return settings.data_dir / _PLACES if given is None else Path(given)


def find_backup(settings: Settings, places: str | None, given: str | None) -> BackupFolder:
    """The backup with this name or path, or else the newest. Raises `NoSuchBackup`."""
    where = places_of(settings, places)
    if given is None:
        kept = kept_backups(where)
        if not kept:
            raise NoSuchBackup(f"No backup found in {where}: `postern backup create` creates one, and --in specifies another folder")
        return kept[0]
    for path in (where / given, Path(given)):
        if path.is_dir():
            return BackupFolder(path)
    raise NoSuchBackup(f"Backup {given} not found, neither here nor in {where}")


def on_database(settings: Settings, url: str) -> Settings:
    """These settings, with this database in place of the own one."""
    return replace(settings, database_url=Secret(url))


async def require_tools(*, embedded: bool, server_version: int, restores: bool = False) -> PostgresTools:
    try:
        tools = await PostgresTools.find(embedded=embedded, server_version=server_version)
        if restores:
            tools.require_restoring_into(server_version)
        return tools  # noqa: TRY300 - what may fail is above
    except ToolsUnusable as error:
        raise StartFailed(str(error)) from None


def known_migrations() -> list[str]:
    """The migrations of this program, as manifests name them."""
    return [f"{migration} {migration.checksum}" for migration in shipped()]


async def was_recorded(settings: Settings, event: Event) -> bool:
    """Whether the event is now in the audit log of this installation. The database may be away: backups are for such days."""
    with suppress(StartFailed, SettingsError, Refusal, psycopg.Error):
        try:
            async with reachable_database(settings):
                await require_known_schema(settings)
                async with open_postern(settings) as postern, postern.foundation.unit_of_work() as uow:
                    await uow.record(event)
                    await uow.commit()
        except BaseExceptionGroup as group:
            raise sole(group) from None
        return True
    return False
