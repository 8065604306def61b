"""What the operator reads before a migration: how long it takes on this database, and whom it would wait for."""

from typing import Final

import pytest
import trio

from adapters.postgres import migrate
from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import Migration
from adapters.postgres.migrating import forecast
from adapters.postgres.migrating.forecast import Effect, LockMode, duration, lines
from adapters.postgres.migrating.steps import steps_of

TABLES: Final = "create table planets (id bigint primary key, name text); create table moons (id bigint primary key);"
WIDE: Final = Migration(
    1,
    "wide",
    "",
    0,
    (),
    (
        Effect("moons", LockMode.SHARE_ROW_EXCLUSIVE),
        Effect("nowhere", LockMode.ACCESS_EXCLUSIVE),
        Effect("planets", LockMode.ACCESS_EXCLUSIVE, reads=True, rewrites=True, changes=True, indexes=2),
    ),
)
IN_STEPS: Final = """
-- step: batches of planets by id
update planets set name = '' where id between %(first)s and %(last)s;
-- step: index planets_of_name
create index concurrently planets_of_name on planets (name);
-- step: validate a of planets
alter table planets validate constraint a;
-- step: drop index planets_old of planets
drop index concurrently planets_old;
"""
STEPS: Final = Migration(2, "steps", IN_STEPS, 0, steps_of(IN_STEPS))


async def prepared(url: str) -> None:
    async with await Connection.connect(url) as connection:
        await connection.execute(TABLES.encode())
        await connection.execute("insert into planets select generate_series(1, 30000)")
        await connection.execute("analyze planets")


async def test_a_plan_tells_locks_work_and_time_from_the_rows_of_this_database(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, speed in {"REWRITTEN": 10_000, "CHANGED": 1000, "INDEXED": 30_000}.items():
        monkeypatch.setattr(forecast, name, speed)
    await prepared(empty_database_url)
    found = await migrate.outlook(empty_database_url, [WIDE, STEPS])
    wide, steps = found.forecasts
    work = "rewrites the table, may change all rows, builds 2 indexes"
    assert list(lines(wide)) == [
        "moons: share row exclusive lock (0 rows); nobody writes it for about 35 s",
        f"planets: access exclusive lock, {work} (30 000 rows); nobody reads or writes it for about 35 s",
        "takes about 35 s.",
    ]
    assert list(lines(steps)) == [
        "planets: changes planets in batches (30 000 rows)",
        "planets: builds the index planets_of_name (30 000 rows)",
        "planets: checks the rows of planets for a (30 000 rows)",
        "planets: drops the index planets_old (30 000 rows)",
        "takes about 5 s. Nobody waits for it.",
    ]
    assert found.obstacles == []


async def test_a_table_in_parts_has_the_rows_of_its_parts(empty_database_url: str) -> None:
    async with await Connection.connect(empty_database_url) as connection:
        await connection.execute("create table comets (id int primary key) partition by range (id)")
        await connection.execute("create schema parts")
        await connection.execute("create table parts.comets_first partition of comets for values from (minvalue) to (1000)")
        await connection.execute("create table parts.comets_rest partition of comets default")
        await connection.execute("insert into comets select generate_series(1, 3000)")
        await connection.execute("analyze comets")
        assert await forecast.rows_of(connection, ["comets", "planets"]) == {"comets": 3000}
        await connection.execute("drop schema parts cascade")


async def test_a_plan_names_the_transactions_that_are_in_the_way_and_not_what_they_do(empty_database_url: str) -> None:
    await prepared(empty_database_url)
    async with (
        await Connection.connect(empty_database_url, application_name="a report") as reader,
        await Connection.connect(empty_database_url, application_name="a backup") as backup,
        reader.transaction(),
        backup.transaction(),
    ):
        await reader.execute("select * from planets where name = 'secret'")
        await backup.execute("select 1")
        async with await Connection.connect(empty_database_url) as connection:
            # Older than any request.
            pid = reader.info.backend_pid
            while await (await connection.execute(_YOUNG, {"pid": pid})).fetchone() != (False,):
                await trio.sleep(0.05)
        (report,) = (await migrate.outlook(empty_database_url, [WIDE])).obstacles
        assert (report.pid, report.application, report.state, report.tables) == (pid, "a report", "idle in transaction", ["planets"])
        assert str(report) == f'pid {pid} "a report" (idle in transaction, for {duration(report.age or 0)}, holds planets)'
        # The building of an index waits for everybody.
        both = (await migrate.outlook(empty_database_url, [STEPS])).obstacles
        assert {one.application for one in both} == {"a report", "a backup"}
        assert "secret" not in repr(both)


_YOUNG: Final = "select xact_start > clock_timestamp() - interval '0.3 s' from pg_stat_activity where pid = %(pid)s"


async def test_a_transaction_that_ends_by_itself_is_no_obstacle(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load, somebody always has the table for a moment."""
    await prepared(empty_database_url)
    async with await Connection.connect(empty_database_url) as reader, await Connection.connect(empty_database_url) as connection:
        async with trio.open_nursery() as nursery:
            await reader.execute("begin")
            await reader.execute("select * from planets")
            seen: list[object] = []

            async def look() -> None:
                seen.extend(await forecast.obstacles(connection, {"planets": LockMode.ACCESS_EXCLUSIVE}))

            async def sleep(_seconds: float) -> None:
                await reader.execute("commit")
                await reader.execute("begin")
                await reader.execute("select * from planets")

            monkeypatch.setattr(trio, "sleep", sleep)
            nursery.start_soon(look)
        assert seen == []


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "less than 1 s"), (4, "4 s"), (119, "119 s"), (240, "4 min"), (3600, "60 min"), (9000, "2.5 h")]
)
def test_durations_are_told_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
