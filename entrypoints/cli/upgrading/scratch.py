"""The scratch database of a rehearsal, and the folder beside it. Both are removed at every end."""

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg
import trio
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from adapters.postgres.backups.snapshots import server_version
from adapters.postgres.backups.tools import PostgresTools
from adapters.postgres.driver.connection import Connection
from adapters.postgres.embedded import BINARIES, EmbeddedPostgres, EmbeddedPostgresError
from core.frozen import Frozen
from entrypoints.cli.backups.check import FAST, needed_room, ran_full
from entrypoints.cli.backups.common import require_tools
from entrypoints.failures import StartFailed

PREFIX: Final = "postern-rehearsal-"
_DATABASE: Final = "postern_rehearsal_"
_LOCK: Final = "lock"
# A folder without the lock of its server is just being made, or was left before there was a server.
_SOON: Final = 60.0


class Scratch(Frozen):
    """`server` is the address of the server, without our database. `folder` is for files that a process would write elsewhere."""

    url: str
    server: str
    tools: PostgresTools
    place: str
    folder: Path
    own: EmbeddedPostgres | None

    @property
    def hosts(self) -> set[str]:
        """The names by which the server is reached."""
        return set(str(conninfo_to_dict(self.server).get("host") or "").split(",")) - {""}

    def is_full(self, reason: str) -> bool:
        return ran_full(self.own, reason)

    async def keep_safe(self) -> bool:
        """From now on, the server waits for its disk, as one that serves does. Returns whether it does: that of --scratch is not ours."""
        if self.own is not None:
            own = self.own
            await trio.to_thread.run_sync(lambda: own.restart({}))
        async with await Connection.connect(self.url) as connection:
            return await (await connection.execute("show fsync")).fetchone() == ("on",)


@asynccontextmanager
async def scratch(server: str | None, work: Path, size: int) -> AsyncIterator[Scratch]:
    """An empty database. `server` is the address of a server to make it on. Without one, a PostgreSQL is started below `work`. `size` is
    how much the database will hold. Raises `StartFailed`.
    """
    await trio.to_thread.run_sync(end_left, work)
    if server is not None:
        with _folder(work) as folder:
            async with _database_on(server) as url:
                tools = await require_tools(embedded=False, server_version=await server_version(url), restores=True)
                yield Scratch(url, server, tools, "the server of --scratch", folder, None)
        return
    if not (BINARIES / "postgres").exists():
        raise StartFailed("This installation has no PostgreSQL of its own to rehearse in: specify a server with --scratch")
    with _folder(work, needs=needed_room(size)) as folder:
        own = EmbeddedPostgres(folder, settings=FAST, on_wait=trio.from_thread.check_cancelled, is_private=True)
        try:
            try:
                await trio.to_thread.run_sync(own.start)
            except EmbeddedPostgresError as error:
                raise StartFailed(str(error)) from None
            plain = own.url("postgres")
            async with await Connection.connect(plain) as connection:
                await connection.execute("create database rehearsal encoding 'UTF8' template template0")
            tools = await require_tools(embedded=True, server_version=await server_version(plain))
            yield Scratch(own.url("rehearsal"), plain, tools, str(work), folder, own)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(own.stop)
                _remove_socket(own)


@contextmanager
def _folder(work: Path, *, needs: int = 0) -> Iterator[Path]:
    """Nobody but us may enter it."""
    try:
        free = shutil.disk_usage(work).free
        if free < needs:
            raise StartFailed(f"{work} has {free >> 20} MiB free, and the rehearsal needs {needs >> 20}: name a larger place with --work")
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=work))
    except OSError as error:
        raise StartFailed(f"{work} cannot be used for the rehearsal: {error.strerror}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_socket(own: EmbeddedPostgres) -> None:
    """Where paths are long, the socket is in a folder elsewhere."""
    if own.data_dir not in own.socket_dir.parents:
        shutil.rmtree(own.socket_dir, ignore_errors=True)


def end_left(work: Path) -> None:
    """Ends the servers of killed rehearsals, and removes their folders.

    The next rehearsal calls it.
    """
    for folder in work.glob(f"{PREFIX}*"):
        with suppress(OSError, EmbeddedPostgresError):
            if folder.stat().st_uid != os.geteuid() and os.geteuid() != 0:
                continue
            own = EmbeddedPostgres(folder, is_private=True)
            if not (folder / _LOCK).exists():
                if time.time() - folder.stat().st_mtime > _SOON:
                    shutil.rmtree(folder, ignore_errors=True)
            elif own.end_left():
                shutil.rmtree(folder, ignore_errors=True)
                _remove_socket(own)


@asynccontextmanager
async def _database_on(server: str) -> AsyncIterator[str]:
    """On a server of the operator's. A session with the name of the database tells other rehearsals that the database is in use."""
    plain = f"{_DATABASE}{secrets.token_hex(6)}"
    name = sql.Identifier(plain)
    try:
        async with await Connection.connect(server) as keeper:
            await _drop_left(keeper)
            await keeper.execute(_NAME, {"database": plain})
            await keeper.execute(sql.SQL("create database {} encoding 'UTF8' template template0").format(name))
            try:
                yield make_conninfo(server, dbname=plain)
            finally:
                with trio.CancelScope(shield=True):
                    await keeper.execute(sql.SQL("drop database if exists {} with (force)").format(name))
    except psycopg.errors.InsufficientPrivilege:
        raise StartFailed("The role of --scratch has no permission to create databases on that server") from None
    except psycopg.OperationalError as error:
        raise StartFailed(f"The scratch database could not be created or dropped: {' '.join(str(error).split())}") from None


async def _drop_left(keeper: Connection) -> None:
    for (name,) in await (await keeper.execute(_LEFT)).fetchall():
        with suppress(psycopg.Error):
            await keeper.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(str(name))))


# A session's name is seen from every database of the server, and goes with the session.
_NAME: Final = "select set_config('application_name', %(database)s, false)"
_LEFT: Final = """
    select datname::text
      from pg_database
     where datname ~ '^postern_rehearsal_[0-9a-f]{12}$'
       and not exists (select from pg_stat_activity where application_name = pg_database.datname)
"""
