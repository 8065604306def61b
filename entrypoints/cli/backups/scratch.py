"""A scratch database for a check: on a PostgreSQL that is started for it and removed afterwards, or on a server of the operator's."""

import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import psycopg
import trio
from psycopg import sql
from psycopg.conninfo import make_conninfo

from adapters.postgres.backups.snapshots import server_version
from adapters.postgres.backups.tools import PostgresTools
from adapters.postgres.driver.connection import Connection
from adapters.postgres.embedded import BINARIES, EmbeddedPostgres, EmbeddedPostgresError
from core.frozen import Frozen
from entrypoints.cli.backups.common import require_tools
from entrypoints.failures import StartFailed

# What is lost with the machine is not missed.
_FAST: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0"}
_FULL: Final = "There is no room left in {}, so nothing is known of the backup"
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
        """Raises `StartFailed` if the place was full: that says nothing of the backup. A server without room for its log ends, so what its
        clients are told (`reason`) may be that they lost their connection.
        """
        if self.own is None and _is_full(reason):
            raise StartFailed(f"{_FULL.format(self.place)}: name another one")
        if self.own is not None and (_is_full(reason) or _is_full(self.own.log_file.read_text(errors="replace"))):
            raise _full(self.place)


@asynccontextmanager
async def scratch_database(server: str | None, work: Path, size: int) -> AsyncIterator[ScratchDatabase]:
    """An empty database that is dropped after the block. `server` is the address of a server to make it on; without one, a PostgreSQL is
    started in a directory below `work`. `size` is how much the database will hold. Raises `StartFailed`.
    """
    if server is not None:
        async with _database_on(server, stays=True) as url:
            tools = await require_tools(embedded=False, server_version=await server_version(url), restores=True)
            yield ScratchDatabase(url, tools, "the server of --scratch")
        return
    if not (BINARIES / "postgres").exists():
        raise StartFailed("This installation carries no PostgreSQL to try the backup on: name a server with --scratch")
    async with _own_server(work, size) as started, _database_on(started.url("postgres"), stays=False) as url:
        yield ScratchDatabase(url, await require_tools(embedded=True, server_version=await server_version(url)), str(work), started)


@asynccontextmanager
async def _own_server(work: Path, size: int) -> AsyncIterator[EmbeddedPostgres]:
    try:
        free, needed = shutil.disk_usage(work).free, int(_OWN + size * _ROOM)
        if free < needed:
            raise StartFailed(f"{work} has {free >> 20} MiB free, and the check needs {needed >> 20}: name a larger place with --work")
        directory = Path(tempfile.mkdtemp(prefix="postern-check-", dir=work))
    except OSError as error:
        raise StartFailed(f"{work} cannot be used for the check: {error.strerror}") from None
    if os.geteuid() == 0:
        directory.chmod(0o711)  # noqa: ASYNC240 - at once; another user runs the server then
    own = EmbeddedPostgres(directory, settings=_FAST, on_wait=trio.from_thread.check_cancelled)
    try:
        try:
            await trio.to_thread.run_sync(own.start)
        except EmbeddedPostgresError as error:
            raise (_full(str(work)) if _is_full(str(error)) else StartFailed(str(error))) from None
        try:
            yield own
        except psycopg.Error as error:
            raise (_full(str(work)) if _is_full(str(error)) else error) from None
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(own.stop)
            await trio.to_thread.run_sync(lambda: shutil.rmtree(directory, ignore_errors=True))


def _is_full(reason: str) -> bool:
    return any(sign in reason for sign in _SIGNS)


def _full(work: str) -> StartFailed:
    return StartFailed(f"{_FULL.format(work)}: name a larger place with --work")


@asynccontextmanager
async def _database_on(server: str, *, stays: bool) -> AsyncIterator[str]:
    """`stays` says that the server outlives the check."""
    plain = f"postern_check_{secrets.token_hex(6)}"
    name = sql.Identifier(plain)
    try:
        async with await Connection.connect(server) as connection:
            await connection.execute(sql.SQL("create database {} encoding 'UTF8' template template0").format(name))
    except psycopg.errors.InsufficientPrivilege:
        raise StartFailed("The role of --scratch may not create databases there") from None
    except psycopg.Error as error:
        if not stays and _is_full(str(error)):
            raise
        raise StartFailed(f"No scratch database could be made: {' '.join(str(error).split())}") from None
    try:
        yield make_conninfo(server, dbname=plain)
    finally:
        if stays:
            with trio.CancelScope(shield=True):
                async with await Connection.connect(server) as connection:
                    await connection.execute(sql.SQL("drop database if exists {} with (force)").format(name))
