"""A scratch database for a check: on a PostgreSQL that is started for it and removed afterwards, or on a server of the operator's."""

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
# Indexes and PostgreSQL's own files.
_ROOM: Final = 1.2


class ScratchDatabase(Frozen):
    url: str
    tools: PostgresTools


@asynccontextmanager
async def scratch_database(server: str | None, work: Path, size: int) -> AsyncIterator[ScratchDatabase]:
    """An empty database that is dropped after the block. `server` is the address of a server to make it on; without one, a PostgreSQL is
    started in a directory below `work`. `size` is how much the database will hold. Raises `StartFailed`.
    """
    if server is not None:
        async with _database_on(server) as url:
            yield ScratchDatabase(url, await require_tools(embedded=False, server_version=await server_version(url), restores=True))
        return
    if not (BINARIES / "postgres").exists():
        raise StartFailed("This installation carries no PostgreSQL to try the backup on: name a server with --scratch")
    async with _own_server(work, size) as started, _database_on(started.url("postgres")) as url:
        yield ScratchDatabase(url, await require_tools(embedded=True, server_version=await server_version(url)))


@asynccontextmanager
async def _own_server(work: Path, size: int) -> AsyncIterator[EmbeddedPostgres]:
    try:
        free = shutil.disk_usage(work).free
        if free < size * _ROOM:
            raise StartFailed(
                f"{work} has {free / (1 << 30):.1f} GiB free, and the check needs {size * _ROOM / (1 << 30):.1f}: "
                "name a larger place with --work"
            )
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
            raise StartFailed(str(error)) from None
        yield own
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(own.stop)
            await trio.to_thread.run_sync(lambda: shutil.rmtree(directory, ignore_errors=True))


@asynccontextmanager
async def _database_on(server: str) -> AsyncIterator[str]:
    plain = f"postern_check_{secrets.token_hex(6)}"
    name = sql.Identifier(plain)
    try:
        async with await Connection.connect(server) as connection:
            await connection.execute(sql.SQL("create database {} encoding 'UTF8' template template0").format(name))
    except psycopg.errors.InsufficientPrivilege:
        raise StartFailed("The role of --scratch may not create databases there") from None
    except psycopg.Error as error:
        raise StartFailed(f"No scratch database could be made: {' '.join(str(error).split())}") from None
    try:
        yield make_conninfo(server, dbname=plain)
    finally:
        with trio.CancelScope(shield=True):
            async with await Connection.connect(server) as connection:
                await connection.execute(sql.SQL("drop database if exists {} with (force)").format(name))
