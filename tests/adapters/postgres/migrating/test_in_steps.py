"""Migrations in steps on a real PostgreSQL: nobody waits for them, and what was interrupted goes on where it was."""

from collections.abc import Callable, Sequence
from typing import Final

import psycopg
import pytest
import trio

from adapters.postgres import migrate
from adapters.postgres.driver.connection import Connection
from adapters.postgres.embedded import EmbeddedPostgres
from adapters.postgres.migrate import Migration, MigrationFailed, shipped
from adapters.postgres.migrating import in_steps
from adapters.postgres.migrating.forecast import Effect, LockMode
from adapters.postgres.migrating.steps import steps_of
from tests.patience import PATIENCE
from tests.places import open_directory

FIRST: Final = Migration(
    1,
    "planets",
    """
    create table planets (id uuid primary key, moons integer not null, name text, was_changed integer not null default 0);
    insert into planets (id, moons)
    select ('00000000-0000-7000-8000-' || lpad(number::text, 12, '0'))::uuid, number from generate_series(1, 2000) as number;
    create index planets_old on planets (name);
    alter table planets add constraint planets_moons check (moons > 0) not valid;
    """,
)
CHANGE: Final = """
-- step: batches of planets by id
update planets set name = 'planet ' || moons, was_changed = was_changed + 1 where id between %(first)s and %(last)s;
"""
INDEX: Final = """
-- step: index planets_of_name
create unique index concurrently planets_of_name on planets (name);
"""
CHECK: Final = """
-- step: validate planets_moons of planets
alter table planets validate constraint planets_moons;
"""
DROP: Final = """
-- step: drop index planets_old of planets
drop index concurrently planets_old;
"""


def second(*steps: str) -> Sequence[Migration]:
    sql = "-- additive, in steps\n" + "".join(steps)
    return (FIRST, Migration(2, "names", sql, 0, steps_of(sql)))


def silent(_: str) -> None: ...


async def answer(url: str, statement: str) -> object:
    async with await Connection.connect(url) as connection:
        cursor = await connection.execute(statement.encode())
        row = await cursor.fetchone() if cursor.description else None
        return None if row is None else row[0]


CHANGED: Final = "select count(*) from planets where was_changed = 1"
CHANGED_TWICE: Final = "select count(*) from planets where was_changed > 1"
VALID: Final = "select indisvalid from pg_index where indexrelid = to_regclass('planets_of_name')"


async def test_all_kinds_of_steps_are_carried_out_in_their_order(empty_database_url: str) -> None:
    said: list[str] = []
    done = await migrate.migrate(empty_database_url, said.append, second(CHANGE, INDEX, CHECK, DROP))
    assert [migration.number for migration in done] == [1, 2]
    assert [line for line in said if line.startswith("Step")] == [
        "Step 1 of 4 changes planets in batches …",
        "Step 2 of 4 builds the index planets_of_name …",
        "Step 3 of 4 checks the rows of planets for planets_moons …",
        "Step 4 of 4 drops the index planets_old …",
    ]
    assert await answer(empty_database_url, CHANGED) == 2000
    assert await answer(empty_database_url, VALID) is True
    assert await answer(empty_database_url, "select convalidated from pg_constraint where conname = 'planets_moons'") is True
    assert await answer(empty_database_url, "select to_regclass('planets_old')") is None
    # What was remembered goes with the end.
    assert await answer(empty_database_url, "select to_regclass('schema_migration_steps')") is None
    assert await migrate.migrate(empty_database_url, silent, second(CHANGE, INDEX, CHECK, DROP)) == []


async def test_rows_of_a_growing_table_end(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that come during the last batch do not keep the migration going."""
    monkeypatch.setattr(in_steps, "FIRST_BATCH", 1500)
    growing = CHANGE.replace("update planets", "update planets", 1)
    await migrate.migrate(empty_database_url, silent, (FIRST,))
    await answer(
        empty_database_url,
        """
        create function grow() returns trigger language plpgsql as $$
        begin
            insert into planets (id, moons)
            select gen_random_uuid(), 1 from generate_series(1, 10) where not exists (select from planets where id > new.id);
            return new;
        end $$;
        create trigger growing before update on planets for each row execute function grow();
        """,
    )
    with trio.fail_after(PATIENCE):
        await migrate.migrate(empty_database_url, silent, second(growing))


async def test_what_was_interrupted_goes_on_after_the_last_batch(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_steps, "FIRST_BATCH", 100)
    monkeypatch.setattr(in_steps, "LARGEST_BATCH", 100)
    monkeypatch.setattr(in_steps, "BATCH_TIME", PATIENCE)
    await migrate.migrate(empty_database_url, silent, (FIRST,))
    stop = """
        create function stop() returns trigger language plpgsql as $$ begin raise exception 'a black hole'; end $$;
        create trigger stopping before update on planets for each row when (old.moons = 1250) execute function stop();
    """
    await answer(empty_database_url, stop)
    with pytest.raises(MigrationFailed) as caught:
        await migrate.migrate(empty_database_url, silent, second(INDEX, CHANGE))
    assert str(caught.value) == (
        "Migration 0002_names stopped; the steps that are done stay, and the next try goes on after them: a black hole"
    )
    assert await answer(empty_database_url, CHANGED) == 1200
    with pytest.raises(migrate.SchemaMismatch, match="lacks what this Postern needs"):
        await migrate.require_current(empty_database_url, second(INDEX, CHANGE))

    await answer(empty_database_url, "analyze planets")
    (left,) = (await migrate.outlook(empty_database_url, second(INDEX, CHANGE)[1:])).forecasts
    assert [part.what for part in left.parts] == ["changes planets in batches (800 rows)"]

    with pytest.raises(MigrationFailed, match="Some steps of 0002_names were carried out in another form"):
        await migrate.migrate(empty_database_url, silent, second(CHANGE))

    await answer(empty_database_url, "drop trigger stopping on planets")
    said: list[str] = []
    progressed: list[int] = []
    await migrate.migrate(empty_database_url, said.append, second(INDEX, CHANGE), counted(progressed))
    assert not any("index" in line for line in said), "a step that is done is not done again"
    assert progressed[0] == 1200
    assert sum(progressed) == 2000
    assert await answer(empty_database_url, CHANGED) == 2000
    assert await answer(empty_database_url, CHANGED_TWICE) == 0


class _Counting:
    def __init__(self, into: list[int]) -> None:
        self._into = into

    def __enter__(self) -> Callable[[int], None]:
        return self._into.append

    def __exit__(self, *_: object) -> None: ...


def counted(into: list[int]) -> Callable[[str, int | None, str], _Counting]:
    def opened(title: str, _total: int | None, _unit: str) -> _Counting:
        return _Counting(into if title.startswith("Changing") else [])

    return opened


async def test_a_batch_gives_way_to_somebody_who_holds_a_row(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_steps, "LOCK_TIMEOUT", "20ms")
    monkeypatch.setattr(in_steps, "YIELD_PAUSE", 0.01)
    monkeypatch.setattr(in_steps, "FIRST_BATCH", 100)
    await migrate.migrate(empty_database_url, silent, (FIRST,))
    async with await Connection.connect(empty_database_url) as holder, trio.open_nursery() as nursery, holder.transaction():
        await holder.execute("select from planets where moons = 150 for update")
        nursery.start_soon(migrate.migrate, empty_database_url, silent, second(CHANGE))
        with trio.fail_after(PATIENCE):
            # It shrinks its batches until it stands before the row that is held.
            while await answer(empty_database_url, CHANGED) != 149:
                await trio.sleep(0.02)
    assert await answer(empty_database_url, CHANGED) == 2000

    monkeypatch.setattr(in_steps, "MOST_YIELDS", 1)
    again = (*second(CHANGE), Migration(3, "again", second(CHANGE)[1].sql, 0, steps_of(CHANGE)))
    async with await Connection.connect(empty_database_url) as holder, holder.transaction():
        await holder.execute("select from planets where moons = 150 for update")
        with pytest.raises(MigrationFailed, match="others kept using the rows of a batch"):
            await migrate.migrate(empty_database_url, silent, again)


async def test_an_index_that_rows_contradict_does_not_stay(empty_database_url: str) -> None:
    await migrate.migrate(empty_database_url, silent, (FIRST,))
    await answer(empty_database_url, "update planets set name = 'twin' where moons < 3")
    with pytest.raises(MigrationFailed, match='could not create unique index "planets_of_name"'):
        await migrate.migrate(empty_database_url, silent, second(INDEX))
    assert await answer(empty_database_url, VALID) is None


async def test_what_is_left_of_an_interrupted_index_is_built_again(empty_database_url: str) -> None:
    await migrate.migrate(empty_database_url, silent, (FIRST,))
    await answer(empty_database_url, "update planets set name = 'twin' where moons < 3")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await answer(empty_database_url, "create unique index concurrently planets_of_name on planets (name)")
    assert await answer(empty_database_url, VALID) is False
    await answer(empty_database_url, "update planets set name = null")
    said: list[str] = []
    await migrate.migrate(empty_database_url, said.append, second(INDEX))
    assert "Removing what an interrupted try left of planets_of_name …" in said
    assert await answer(empty_database_url, VALID) is True


async def test_an_index_that_was_finished_but_not_remembered_stays(empty_database_url: str) -> None:
    await migrate.migrate(empty_database_url, silent, (FIRST,))
    await answer(empty_database_url, "create unique index concurrently planets_of_name on planets (name)")
    built = await answer(empty_database_url, "select to_regclass('planets_of_name')::oid")
    await migrate.migrate(empty_database_url, silent, second(INDEX))
    assert await answer(empty_database_url, "select to_regclass('planets_of_name')::oid") == built


async def test_an_index_waits_for_a_long_transaction_and_another_process_for_the_index(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one who waits for a turn has no transaction, or the building of the index would wait for it, too."""
    monkeypatch.setattr(in_steps, "LOOK_EVERY", 0.02)
    await migrate.migrate(empty_database_url, silent, (FIRST,))
    said: list[str] = []
    waiting: list[str] = []
    async with await Connection.connect(empty_database_url, application_name="a report") as reader:
        pid = reader.info.backend_pid
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery, reader.transaction():
                await reader.execute("update planets set name = 'held' where moons = 1")
                nursery.start_soon(migrate.migrate, empty_database_url, said.append, second(INDEX))
                while not any('"a report"' in line for line in said):
                    await trio.sleep(0.02)
                nursery.start_soon(migrate.migrate, empty_database_url, waiting.append, second(INDEX))
                while not waiting:
                    await trio.sleep(0.02)
                # Nobody waits behind it.
                await answer(empty_database_url, "update planets set name = 'free' where moons = 2")
    told = next(line for line in said if '"a report"' in line)
    assert told.startswith(f'It waits for the end of pid {pid} "a report" (idle in transaction, for ')
    assert waiting == ["Another process is migrating; waiting for it …"]
    assert await answer(empty_database_url, VALID) is True


# Autovacuum that takes long on any table.
SLOW_VACUUM: Final = {
    "autovacuum_naptime": "1s",
    "autovacuum_vacuum_threshold": "1",
    "autovacuum_vacuum_scale_factor": "0",
    "autovacuum_vacuum_cost_delay": "100ms",
    "autovacuum_vacuum_cost_limit": "1",
    "fsync": "off",
}


async def test_autovacuum_gives_way_to_a_migration() -> None:
    """It does so for somebody who waits for a second, and a migration waits no longer than 0.4 s for what others wait for."""
    widen = Migration(2, "wider", "alter table planets add column ring text;", 0, (), (Effect("planets", LockMode.ACCESS_EXCLUSIVE),))
    with open_directory() as place, EmbeddedPostgres(place, settings=SLOW_VACUUM) as server:
        url = server.url("postgres")
        await migrate.migrate(url, silent, (FIRST,))
        await answer(url, "update planets set moons = moons + 1")
        vacuuming = "select count(*) from pg_stat_progress_vacuum where relid = 'planets'::regclass"
        with trio.fail_after(PATIENCE):
            while await answer(url, vacuuming) != 1:
                await trio.sleep(0.05)
            await migrate.migrate(url, silent, (FIRST, widen))
        # It was ended, and did not come to its end.
        assert await answer(url, "select autovacuum_count from pg_stat_user_tables where relname = 'planets'") == 0


SIGN_INS: Final = 5000


async def test_nobody_who_signs_in_waits_for_long(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The drill of `ops/drill/migration.py` in small: on the real tables, with people who sign in and a transaction that lasts. Each
    statement of theirs fails if it waits for a lock for 1.2 s.
    """
    monkeypatch.setattr(migrate, "LOCK_PAUSE", 0.05)
    monkeypatch.setattr(in_steps, "FIRST_BATCH", 50)
    add = "insert into login_events (id, provider, success, country, created_at) select gen_random_uuid(), 'password', true, 'at', now()"
    await answer(database_url, f"{add} from generate_series(1, {SIGN_INS})")
    number = len(shipped()) + 1
    widen = "alter table login_events add column region text; alter table users add column region text;"
    locks = tuple(Effect(table, LockMode.ACCESS_EXCLUSIVE) for table in ("login_events", "users"))
    rest = """-- additive, in steps
-- step: batches of login_events by id
update login_events set region = upper(country) where id between %(first)s and %(last)s and region is null;
-- step: index login_events_of_region
create index concurrently login_events_of_region on login_events (region, id desc);
"""
    new = (*shipped(), Migration(number, "regions", widen, 0, (), locks), Migration(number + 1, "filled", rest, 0, steps_of(rest)))
    said: list[str] = []
    signed_in = 0
    over = trio.Event()

    async def sign_in() -> None:
        nonlocal signed_in
        async with await Connection.connect(database_url, options="-c lock_timeout=1200ms") as person:
            while not over.is_set():
                async with person.transaction():
                    await person.execute("select from users where email_key = 'ada@example.com'")
                    await person.execute(add.encode())
                signed_in += 1
                await trio.sleep(0.002)

    async def upgrade() -> None:
        assert [one.number for one in await migrate.migrate(database_url, said.append, new)] == [number, number + 1]
        over.set()

    async with await Connection.connect(database_url, application_name="a report") as reader:
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(sign_in)
                async with reader.transaction():
                    await reader.execute("select count(*) from login_events")
                    nursery.start_soon(upgrade)
                    while not any(line.startswith("A table is in use") for line in said):
                        await trio.sleep(0.01)
                    before = signed_in
                    while signed_in < before + 20:
                        await trio.sleep(0.01)
    assert any('"a report"' in line for line in said)
    assert await answer(database_url, f"select count(*) >= {SIGN_INS} from login_events where region = 'AT'") is True
    assert await answer(database_url, "select indisvalid from pg_index where indexrelid = 'login_events_of_region'::regclass") is True
