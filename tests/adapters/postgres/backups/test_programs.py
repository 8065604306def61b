"""PostgreSQL's own programs reach the host that answers, and wait for none that does not."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from adapters.postgres.backups import tools
from adapters.postgres.backups.snapshots import exported_snapshot, server_version
from adapters.postgres.backups.tools import PostgresTools, ToolFailed
from adapters.postgres.embedded import BINARIES
from tests.adapters.postgres.wire import Wire
from tests.entrypoints.backups.installation import with_programs_of
from tests.patience import PATIENCE


@pytest.fixture
def mute() -> Iterator[int]:
    """The port of a host that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def of_two(url: str, first: int, second: int) -> str:
    of_both = {"host": "127.0.0.1,127.0.0.1", "port": f"{first},{second}", "sslmode": "disable", "gssencmode": "disable"}
    return make_conninfo("", **{**conninfo_to_dict(url), **of_both})


async def test_a_dump_and_a_restore_pass_a_silent_host_by(
    database_url: str, empty_database_url: str, mute: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pg_dump itself would wait for the silent host for ever."""
    version = await server_version(database_url)
    with_programs_of(version, monkeypatch)
    programs = await PostgresTools.find(embedded=False, server_version=version)
    with trio.fail_after(PATIENCE):
        async with Wire(database_url) as wire, Wire(empty_database_url) as empty:
            url = of_two(wire.url, mute, wire.port)
            async with exported_snapshot(url) as snapshot:
                await programs.dump(url, snapshot.name, tmp_path / "dump")
            await programs.read_all(url)
            await programs.restore(of_two(empty.url, mute, empty.port), tmp_path / "dump")


async def test_a_host_that_is_silent_alone_is_said(database_url: str, mute: int, monkeypatch: pytest.MonkeyPatch) -> None:
    url = make_conninfo(database_url, host="127.0.0.1", port=mute, connect_timeout=2)
    programs = PostgresTools(BINARIES, 18)
    with trio.fail_after(PATIENCE), pytest.raises(ToolFailed, match=r"^pg_dump: no answer from 127\.0\.0\.1:\d+ within 2 s$"):
        await programs.read_all(url)
    # It falls silent after the host was chosen: the program has a bound of its own.

    async def chosen(conninfo: str) -> str:
        await trio.lowlevel.checkpoint()
        return conninfo

    monkeypatch.setattr(tools, "_with_one_host", chosen)
    with trio.fail_after(PATIENCE), pytest.raises(ToolFailed, match=r"^pg_dump: .*timeout expired"):
        await programs.read_all(url)


async def test_a_program_that_never_connects_is_ended(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "pg_dump"
    program.write_text("#!/bin/sh\necho 'pg_restore: connecting to database for restore' >&2\nexec sleep 1000\n")
    program.chmod(0o700)
    monkeypatch.setattr(tools, "START", 0.3)
    with trio.fail_after(PATIENCE), pytest.raises(ToolFailed, match=r"^pg_dump: it had no connection to the database within 0\.3 s$"):
        await PostgresTools(tmp_path, 18).read_all(database_url)


async def test_a_program_that_is_connected_may_take_its_time(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "pg_dump"
    program.write_text("#!/bin/sh\necho 'pg_dump: reading extensions' >&2\nsleep 3.5\necho done\n")
    program.chmod(0o700)
    monkeypatch.setattr(tools, "START", 3)
    with trio.fail_after(PATIENCE):
        await PostgresTools(tmp_path, 18).read_all(database_url)
