"""Migrations: once each, in order, by one process at a time, and nothing half-made."""

import re
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest
import trio

from adapters.postgres import locks, migrate
from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import Migration, MigrationFailed, SchemaMismatch
from adapters.postgres.migrating import forecast
from adapters.postgres.migrating.forecast import Effect, LockMode
from tests.patience import PATIENCE

TWO = (
    Migration(1, "planets", "create table planets (id integer primary key); insert into planets values (1);"),
    Migration(2, "moons", "create table moons (id integer primary key, planet integer not null references planets);"),
)

# A column that older processes know nothing of; the end of one that they have stopped using, if they know of the first.
COMETS = Migration(3, "comets", "alter table planets add column comets integer;", needs=0)
NO_PLUTO = Migration(4, "no_pluto", "delete from planets where id = 9;", needs=3)


def silent(_: str) -> None: ...


async def query(url: str, statement: str) -> list[tuple[object, ...]]:
    async with await Connection.connect(url) as connection:
        cursor = await connection.execute(statement.encode())
        return await cursor.fetchall() if cursor.description else []


async def tables(url: str) -> set[object]:
    return {
        name
        for (name,) in await query(url, "select relname from pg_class where relkind = 'r' and relnamespace = current_schema::regnamespace")
    }


async def test_an_empty_database_is_brought_to_the_end_state(empty_database_url: str) -> None:
    said: list[str] = []
    done = await migrate.migrate(empty_database_url, said.append)
    assert done == list(migrate.shipped())
    assert said[0] == "Applying 0001_release_0_2 …"
    assert {"users", "jobs", "schema_migrations"} <= await tables(empty_database_url)
    await migrate.require_current(empty_database_url)


async def test_migrating_again_does_nothing(empty_database_url: str) -> None:
    await migrate.migrate(empty_database_url, silent, TWO)
    assert await migrate.migrate(empty_database_url, silent, TWO) == []
    assert await query(empty_database_url, "select number, name from schema_migrations order by number") == [(1, "planets"), (2, "moons")]


async def test_a_plan_says_what_would_be_done_and_does_nothing(empty_database_url: str) -> None:
    plan = await migrate.plan(empty_database_url, TWO)
    assert (plan.applied, plan.pending) == ([], TWO)
    assert await tables(empty_database_url) == set()

    await migrate.migrate(empty_database_url, silent, TWO[:1])
    plan = await migrate.plan(empty_database_url, TWO)
    assert [str(there) for there in plan.applied] == ["0001_planets"]
    assert plan.applied[0].checksum == TWO[0].checksum
    assert plan.pending == TWO[1:]


async def test_of_many_that_migrate_at_once_one_does_the_work(empty_database_url: str) -> None:
    done: list[list[Migration]] = []
    said: list[str] = []
    slow = (*TWO, Migration(3, "rings", "select pg_sleep(0.1); create table rings (id integer);"))

    async def one() -> None:
        done.append(await migrate.migrate(empty_database_url, said.append, slow))

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(one)
    assert sorted(migration.number for each in done for migration in each) == [1, 2, 3]
    assert "Another process is migrating; waiting for it …" in said


async def test_who_waits_for_another_finds_it_done(empty_database_url: str) -> None:
    said: list[str] = []
    done: list[list[Migration]] = []

    async def wait_and_migrate() -> None:
        done.append(await migrate.migrate(empty_database_url, said.append, TWO))

    async with await Connection.connect(empty_database_url) as other, trio.open_nursery() as nursery, other.transaction():
        await other.execute("select pg_advisory_xact_lock(%s, %s)", (locks.NAMESPACE, locks.MIGRATION))
        nursery.start_soon(wait_and_migrate)
        with trio.fail_after(PATIENCE):
            while not said:
                await trio.sleep(0.01)
        assert await tables(empty_database_url) == set()
    assert said[0] == "Another process is migrating; waiting for it …"
    assert done == [list(TWO)]


@pytest.mark.parametrize(
    ("history", "known", "sentence"),
    [
        (TWO, TWO[:1], "The database was migrated by a newer Postern: this one knows up to 0001_planets, and cannot run beside 0002_moons"),
        (TWO, (), "The database was migrated by a newer Postern: this one knows up to none, and cannot run beside 0001_planets"),
        (
            (*TWO, COMETS, NO_PLUTO),
            TWO,
            "The database was migrated by a newer Postern: this one knows up to 0002_moons, and cannot run beside 0004_no_pluto",
        ),
        (
            (TWO[0], Migration(2, "moons", "select 1")),
            TWO,
            "Migration 0002_moons was applied in another form than the 0002_moons that this Postern carries",
        ),
        (
            (TWO[0], Migration(2, "rings", TWO[1].sql)),
            TWO,
            "Migration 0002_rings was applied in another form than the 0002_moons that this Postern carries",
        ),
    ],
)
async def test_a_history_that_is_not_ours_is_refused(
    empty_database_url: str, history: Sequence[Migration], known: Sequence[Migration], sentence: str
) -> None:
    await migrate.migrate(empty_database_url, silent, history)
    for refusal in (migrate.require_current, migrate.plan):
        with pytest.raises(SchemaMismatch) as caught:
            await refusal(empty_database_url, known)
        assert str(caught.value) == sentence
    with pytest.raises(SchemaMismatch, match=r"newer|another form"):
        await migrate.migrate(empty_database_url, silent, known)


async def test_a_hole_in_the_history_is_refused(empty_database_url: str) -> None:
    await migrate.migrate(empty_database_url, silent, TWO)
    await query(empty_database_url, "delete from schema_migrations where number = 1")
    with pytest.raises(SchemaMismatch) as caught:
        await migrate.migrate(empty_database_url, silent, TWO)
    assert str(caught.value) == "The database has a hole: migration 0002_moons is applied, but number 0001 is not"


async def test_a_database_that_lacks_something_is_not_served(empty_database_url: str) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        await migrate.require_current(empty_database_url, TWO)
    assert str(caught.value) == "The database lacks what this Postern needs (0001_planets, 0002_moons): run `postern migrate`"


def test_an_old_server_is_refused() -> None:
    migrate.require_supported(140_000, "UTF8")
    with pytest.raises(SchemaMismatch) as caught:
        migrate.require_supported(130_022, "UTF8")
    assert str(caught.value) == "Postern needs PostgreSQL 14 or later; this server is 13"


async def test_a_database_in_another_encoding_is_refused(empty_database_url: str) -> None:
    parameters = psycopg.conninfo.conninfo_to_dict(empty_database_url)
    name = f"{parameters['dbname']}_ascii"
    await query(empty_database_url, f"create database {name} template template0 encoding 'SQL_ASCII' locale 'C'")
    try:
        with pytest.raises(SchemaMismatch, match="this one is in SQL_ASCII"):
            await migrate.plan(psycopg.conninfo.make_conninfo(empty_database_url, dbname=name))
    finally:
        await query(empty_database_url, f"drop database {name} with (force)")


async def test_a_migration_that_fails_leaves_nothing_and_keeps_those_before_it(empty_database_url: str) -> None:
    broken = (*TWO, Migration(3, "rings", "create table rings (id integer); insert into nowhere values (1);"))
    with pytest.raises(MigrationFailed, match=r'^Migration 0003_rings failed and was rolled back: relation "nowhere" does not exist$'):
        await migrate.migrate(empty_database_url, silent, broken)
    assert await tables(empty_database_url) == {"schema_migrations", "planets", "moons"}
    assert await query(empty_database_url, "select max(number) from schema_migrations") == [(2,)]


async def test_a_migration_whose_connection_is_cut_leaves_nothing(empty_database_url: str) -> None:
    long = (Migration(1, "rings", "create table rings (id integer); select pg_sleep(60);"),)

    async def cut() -> None:
        kill = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like '%pg_sleep(60)%'"
        with trio.fail_after(PATIENCE):
            while not await query(empty_database_url, f"{kill} and pid <> pg_backend_pid()"):
                await trio.sleep(0.02)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cut)
        with pytest.raises(MigrationFailed):
            await migrate.migrate(empty_database_url, silent, long)
    assert await tables(empty_database_url) == set()
    await migrate.migrate(empty_database_url, silent, TWO)


async def test_a_migration_that_is_cancelled_leaves_nothing_and_lets_the_next_one_in(empty_database_url: str) -> None:
    long = (Migration(1, "rings", "create table rings (id integer); select pg_sleep(60);"),)
    with trio.fail_after(PATIENCE):
        with trio.move_on_after(0.2):
            await migrate.migrate(empty_database_url, silent, long)
        assert await tables(empty_database_url) == set()
        await migrate.migrate(empty_database_url, silent, TWO)


WIDER = Migration(2, "wider", "alter table planets add column name text;")
# The same, with what it does to tables that are there.
WIDER_AND_KNOWN = Migration(2, "wider", WIDER.sql, effects=(Effect("planets", LockMode.ACCESS_EXCLUSIVE),))


@pytest.mark.parametrize("wider", [WIDER, WIDER_AND_KNOWN])
async def test_a_table_in_use_is_asked_for_again(empty_database_url: str, monkeypatch: pytest.MonkeyPatch, wider: Migration) -> None:
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", 0.02)
    monkeypatch.setattr(migrate, "LOCK_PAUSE", 0.01)
    await migrate.migrate(empty_database_url, silent, TWO[:1])
    said: list[str] = []
    done: list[list[Migration]] = []

    async def widen() -> None:
        done.append(await migrate.migrate(empty_database_url, said.append, (TWO[0], wider)))

    async with await Connection.connect(empty_database_url) as reader, trio.open_nursery() as nursery, reader.transaction():
        await reader.execute("select * from planets")
        nursery.start_soon(widen)
        with trio.fail_after(PATIENCE):
            while not any(line.startswith("A table is in use") for line in said):
                await trio.sleep(0.01)
    assert done == [[wider]]


async def test_a_table_that_stays_in_use_ends_the_attempt_with_a_sentence(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", 0.01)
    monkeypatch.setattr(migrate, "LOCK_PAUSE", 0.0)
    monkeypatch.setattr(migrate, "LOCK_ATTEMPTS", 2)
    await migrate.migrate(empty_database_url, silent, TWO[:1])
    async with await Connection.connect(empty_database_url, application_name="a \x1breport") as reader, reader.transaction():
        await reader.execute("select * from planets")
        with pytest.raises(MigrationFailed, match="could not get a table to itself in 2 attempts; nothing of it was kept"):
            await migrate.migrate(empty_database_url, silent, (TWO[0], WIDER))
        with pytest.raises(MigrationFailed) as caught:
            await migrate.migrate(empty_database_url, silent, (TWO[0], WIDER_AND_KNOWN))
        told = rf'by pid {reader.info.backend_pid} "a .+report" \(idle in transaction, for .+, holds planets\)'
        assert re.search(told, str(caught.value)), str(caught.value)


async def test_nobody_waits_behind_a_migration_that_waits_for_a_long_transaction(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table lock that waits stops everybody who comes after it. So the migration asks for none before the transaction has ended."""
    monkeypatch.setattr(migrate, "LOCK_PAUSE", 0.01)
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", PATIENCE)
    await migrate.migrate(empty_database_url, silent, TWO[:1])
    said: list[str] = []
    async with await Connection.connect(empty_database_url) as reader, await Connection.connect(empty_database_url) as other:
        async with trio.open_nursery() as nursery, reader.transaction():
            await reader.execute("select * from planets")
            nursery.start_soon(migrate.migrate, empty_database_url, said.append, (TWO[0], WIDER_AND_KNOWN))
            with trio.fail_after(PATIENCE):
                while not any(line.startswith("A table is in use") for line in said):
                    await other.execute("insert into planets (id) select max(id) + 1 from planets")
            waiting = "select count(*) from pg_locks where not granted and relation = 'planets'::regclass"
            assert await (await other.execute(waiting)).fetchone() == (0,)
        assert await query(empty_database_url, "select count(name) from planets") == [(0,)]


async def test_all_locks_are_taken_before_the_work_and_in_one_time(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second table is in use. The first one is held no longer than that one try takes, and nothing of the work was done in vain."""
    monkeypatch.setattr(migrate, "LOCK_ATTEMPTS", 1)
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", 0.05)
    monkeypatch.setattr(forecast, "OLD", 0.0)
    monkeypatch.setattr(migrate, "obstacles", no_obstacles)
    await migrate.migrate(empty_database_url, silent, TWO)
    effects = (Effect("planets", LockMode.ACCESS_EXCLUSIVE), Effect("moons", LockMode.ACCESS_EXCLUSIVE))
    both = Migration(3, "both", "select nextval('tries'); alter table moons add column name text;", effects=effects)
    await query(empty_database_url, "create sequence tries")
    async with await Connection.connect(empty_database_url) as reader, reader.transaction():
        await reader.execute("select * from moons")
        with pytest.raises(MigrationFailed):
            await migrate.migrate(empty_database_url, silent, (*TWO, both))
    assert await query(empty_database_url, "select is_called from tries") == [(False,)]
    await migrate.migrate(empty_database_url, silent, (*TWO, both))
    assert await query(empty_database_url, "select is_called from tries") == [(True,)]


async def no_obstacles(*_: object) -> Sequence[forecast.LongTransaction]:
    return []


def test_the_shipped_migrations_are_numbered_without_a_hole() -> None:
    assert [migration.number for migration in migrate.shipped()] == list(range(1, len(migrate.shipped()) + 1))
    assert str(migrate.shipped()[0]) == "0001_release_0_2"


async def test_an_older_process_runs_on_what_is_additive(empty_database_url: str) -> None:
    await migrate.migrate(empty_database_url, silent, (*TWO, COMETS))
    (ahead,) = await migrate.require_current(empty_database_url, TWO)
    assert (str(ahead), ahead.needs) == ("0003_comets", 0)
    # It has nothing to do there, and undoes nothing.
    assert await migrate.migrate(empty_database_url, silent, TWO) == []
    assert await migrate.require_current(empty_database_url, (*TWO, COMETS)) == []


async def test_one_that_no_longer_uses_what_goes_runs_without_it_and_one_that_does_is_refused(empty_database_url: str) -> None:
    await migrate.migrate(empty_database_url, silent, (*TWO, COMETS, NO_PLUTO))
    (ahead,) = await migrate.require_current(empty_database_url, (*TWO, COMETS))
    assert str(ahead) == "0004_no_pluto"
    with pytest.raises(SchemaMismatch, match="cannot run beside 0004_no_pluto"):
        await migrate.require_current(empty_database_url, TWO)


@pytest.mark.parametrize(
    ("first_line", "needs"), [("-- additive", 0), ("-- additive since 0004", 4), ("-- additive since 0005", 5), ("-- breaking", None)]
)
def test_the_first_line_says_who_may_run_beside_it(tmp_path: Path, first_line: str, needs: int | None) -> None:
    assert sixth(tmp_path, f"{first_line}\nselect 1;").needs == needs


@pytest.mark.parametrize(
    "sql",
    [
        "select 1;",
        "-- Additive\nselect 1;",
        "-- additive, mostly\nselect 1;",
        "\n-- additive\nselect 1;",
        "select 1;\n-- additive\n",
        "-- additive since 4\nselect 1;",
        "-- additive since 0006\nselect 1;",
        "-- breaking since 0004\nselect 1;",
    ],
)
def test_a_migration_that_does_not_say_it_is_refused(tmp_path: Path, sql: str) -> None:
    with pytest.raises(SchemaMismatch, match=r"This Postern is damaged: its migration 0006_rings\.sql"):
        sixth(tmp_path, sql)


def sixth(folder: Path, sql: str) -> Migration:
    for number in range(1, 6):
        (folder / f"{number:04}_before.sql").write_text("-- additive\n")
    (folder / "0006_rings.sql").write_text(sql)
    return migrate.shipped(folder)[5]


@pytest.mark.parametrize("names", [("0002_late.sql",), ("0001_a.sql", "0003_c.sql"), ("0001_a.sql", "0001_b.sql"), ("1_a.sql",)])
def test_shipped_files_that_are_not_numbered_in_a_row_are_refused(tmp_path: Path, names: Sequence[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("-- additive\n")
    with pytest.raises(SchemaMismatch, match="This Postern is damaged"):
        migrate.shipped(tmp_path)
