"""Which programs serve a database, by the names of the connections on which their processes listen."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final

import psycopg
import pytest
import trio
from psycopg.conninfo import make_conninfo

from adapters.postgres.backups.snapshots import is_served
from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.listener import Listener
from adapters.postgres.driver.pool import Pool
from adapters.postgres.listening_processes import ListeningProcess, listening_processes, name_of_listener, newest_migration, version_in
from adapters.postgres.migrate import Migration, OlderProcessesRun, migrate, older_processes, shipped
from adapters.postgres.platform.governance import PostgresInstallation
from tests.adapters.postgres.migrating.former import FORMER, make_former

NUMBERED: Final = "postern listener 0.2.0 0002"
OF_BEFORE: Final = "postern listener 0.1.0"
FIRST: Final = Migration(1, "planets", "create table planets (name text)", 0)


@pytest.fixture
def serving(empty_database_url: str) -> Iterator["Serving"]:
    with ExitStack() as stack:
        yield Serving(empty_database_url, stack)


class Serving:
    """Connections that are named as those of processes that serve."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.url = url
        self._stack = stack

    def start(self, *names: str) -> None:
        for name in names:
            self._stack.enter_context(psycopg.connect(self.url, application_name=name, autocommit=True))

    async def seen(self) -> Sequence[ListeningProcess]:
        async with await Connection.connect(self.url) as connection:
            return await listening_processes(connection)

    async def tables(self) -> set[str]:
        async with await Connection.connect(self.url) as connection:
            rows = await (await connection.execute("select tablename::text from pg_tables where schemaname = 'public'")).fetchall()
        return {name for (name,) in rows}


async def test_the_name_tells_version_and_newest_migration(serving: Serving) -> None:
    serving.start(NUMBERED, OF_BEFORE, "postern listener", "postern listener ; drop table \x1b[2J", "postern", "postern listeners")
    found = await serving.seen()
    assert [(one.version, one.migration) for one in found] == [("0.1.0", None), ("", None), ("", None), ("0.2.0", 2)]
    assert all(one.host is not None and one.since is not None for one in found)
    assert str(found[0]).startswith("an unknown migration (0.1.0) on ")
    assert str(found[-1]).startswith("0002 (0.2.0) on ")
    assert name_of_listener("0.2.0") == f"postern listener 0.2.0 {len(shipped()):04}"
    assert newest_migration() == len(shipped())
    assert version_in(name_of_listener("0.2.0")) == "0.2.0"
    assert len(name_of_listener("0.2.0")) <= 63


async def test_a_role_without_the_right_sees_number_and_neither_host_nor_time(serving: Serving, worker_id: str) -> None:
    serving.start(NUMBERED)
    role = f"blind_{worker_id}"
    with psycopg.connect(serving.url, autocommit=True) as connection:
        connection.execute(f"create role {role} login password 'made-up'".encode())
        try:
            async with await Connection.connect(make_conninfo(serving.url, user=role, password="made-up")) as blind:
                (found,) = await listening_processes(blind)
            assert (found.migration, found.host, found.since, str(found)) == (2, None, None, "0002 (0.2.0)")
            connection.execute(f"grant pg_read_all_stats to {role}".encode())
            async with await Connection.connect(make_conninfo(serving.url, user=role, password="made-up")) as sees:
                (found,) = await listening_processes(sees)
            assert found.host is not None
            assert found.since is not None
        finally:
            connection.execute(f"drop role {role}".encode())


@pytest.mark.parametrize("where", ["url", "environment", "options"])
async def test_the_listener_sets_its_name_itself(empty_database_url: str, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    url = empty_database_url
    if where == "url":
        url = make_conninfo(url, application_name="mine")
    elif where == "environment":
        monkeypatch.setenv("PGAPPNAME", "mine")
    else:
        url = make_conninfo(url, options="-c application_name=mine")
    async with trio.open_nursery() as nursery:
        await nursery.start(Listener(url, lambda _channel, _payload: None, application_name=NUMBERED).run, ["a channel"])
        async with await Connection.connect(empty_database_url) as connection:
            assert [one.migration for one in await listening_processes(connection)] == [2]
        nursery.cancel_scope.cancel()


async def test_a_process_that_says_its_version_is_seen_to_serve(serving: Serving) -> None:
    assert not await is_served(serving.url)
    serving.start(NUMBERED)
    assert await is_served(serving.url)


async def test_the_console_shows_the_version_without_the_number(database_url: str) -> None:
    pool = Pool(database_url, max_size=1)
    await pool.open()
    try:
        with psycopg.connect(database_url, application_name=NUMBERED):
            assert [one.version for one in (await PostgresInstallation(pool).state()).processes] == ["0.2.0"]
    finally:
        await pool.aclose()


@pytest.mark.parametrize(
    ("name", "needs", "goes_on"),
    [
        (OF_BEFORE, 0, True),
        (OF_BEFORE, 1, False),
        (OF_BEFORE, None, False),
        ("postern listener 0.2.0 0001", 0, True),
        ("postern listener 0.2.0 0001", 1, True),
        ("postern listener 0.2.0 0001", None, False),
        (NUMBERED, None, True),
    ],
)
async def test_a_migration_is_refused_while_a_process_serves_that_could_not_go_on(
    serving: Serving, name: str, needs: int | None, goes_on: bool
) -> None:
    """Nothing is applied, the migrations before it included, and the sentence says what to do."""
    serving.start(name)
    migrations = [FIRST, Migration(2, "moons", "create table moons (name text)", needs)]
    if goes_on:
        await migrate(serving.url, lambda _line: None, migrations)
        assert await serving.tables() >= {"planets", "moons"}
        return
    with pytest.raises(OlderProcessesRun) as caught:
        await migrate(serving.url, lambda _line: None, migrations)
    assert str(caught.value).startswith("Migration 0002_moons is not applied (")
    assert "while an older process serves this database (carrying " in str(caught.value)
    assert str(caught.value).endswith("stop it first, or add --although-older-processes-run to `postern migrate`")
    assert await serving.tables() == set()
    await migrate(serving.url, lambda _line: None, migrations, although_older_processes_run=True)
    assert await serving.tables() >= {"planets", "moons"}


async def test_a_process_that_starts_during_a_migration_is_seen_before_the_next(serving: Serving) -> None:
    migrations = [FIRST, Migration(2, "moons", "create table moons (name text)", None)]

    def start(line: str) -> None:
        if line.startswith("Applied 0001_planets"):
            serving.start(OF_BEFORE)

    with pytest.raises(OlderProcessesRun, match="Migration 0002_moons"):
        await migrate(serving.url, start, migrations)
    assert await serving.tables() >= {"planets"}
    assert "moons" not in await serving.tables()


async def test_a_schema_of_before_is_not_taken_on_while_its_processes_serve(serving: Serving) -> None:
    await make_former(serving.url, FORMER)
    serving.start(OF_BEFORE)
    with pytest.raises(OlderProcessesRun, match=r"^The schema of before 0.2.0 cannot be taken on as 0001_release_0_2 while"):
        await migrate(serving.url, lambda _line: None)
    async with await Connection.connect(serving.url) as connection:
        assert await (await connection.execute("select count(*) from schema_migrations")).fetchone() == (len(FORMER),)
    await migrate(serving.url, lambda _line: None, although_older_processes_run=True)


async def test_older_than_this_program_or_than_the_schema(serving: Serving) -> None:
    serving.start(NUMBERED, name_of_listener("0.2.0"))
    assert [one.migration for one in await older_processes(serving.url)] == [2]
    assert [one.migration for one in await older_processes(serving.url, 2)] == []
    assert [one.migration for one in await older_processes(serving.url, len(shipped()) + 1)] == [2, len(shipped())]
