"""A database that belongs to another program is refused in one sentence, and nothing is written there."""

import re
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
import trio

from adapters.postgres import migrate
from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import SchemaMismatch
from adapters.postgres.migrating.names import names_in
from adapters.postgres.migrating.schema import MARK
from tests.e2e.postern import command

_EVERYTHING: Final = """
    select classid::regclass::text, objid, objsubid from pg_depend union all
    select 'class', oid, xmin::text::int from pg_class union all
    select 'proc', oid, xmin::text::int from pg_proc union all
    select 'namespace', oid, 0 from pg_namespace
     order by 1, 2, 3
"""
_MADE: Final = """
    select relname::text
      from pg_class
     where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'i', 'I', 'S')
       -- PostgreSQL chooses other names for these if somebody has theirs.
       and not exists (select from pg_constraint where conindid = pg_class.oid and contype in ('p', 'u') and conname like '%%key')
"""
_FUNCTIONS: Final = "select proname::text from pg_proc where pronamespace = 'public'::regnamespace"
_SCHEMAS: Final = "select nspname::text from pg_namespace where oid >= 16384 and nspname !~ '^pg_'"


async def all_of(url: str, statement: str) -> list[Any]:
    async with await Connection.connect(url) as connection:
        return await (await connection.execute(statement.encode())).fetchall()


def silent(_line: str) -> None: ...


async def test_every_name_that_is_made_is_known_before(database_url: str) -> None:
    """Of names that PostgreSQL would choose otherwise, none is missing by mistake."""
    carried = [*(migration.sql for migration in migrate.shipped()), migrate.shipped_views_and_functions().sql]
    names = names_in(carried)
    made = {name for (name,) in await all_of(database_url, _MADE)} - {"schema_migrations"}
    assert made - set(names.relations) == set()
    # What a migration makes and a later one drops would be in the way of the first. What goes if it exists, former editions had made.
    dropped = {name for sql in carried for name in re.findall(r"^drop function (?!if exists)(\w+)", sql, re.MULTILINE)}
    assert {name for (name,) in await all_of(database_url, _FUNCTIONS)} == set(names.functions) - dropped
    assert dropped <= set(names.functions)
    assert {name for (name,) in await all_of(database_url, _SCHEMAS)} == set(names.schemas) == {"partitions"}
    assert MARK in names.functions


OURS: Final = {
    "view": ("create view organizations as select 1 as id", "the view organizations"),
    "table of a view's name": ("create table organizations (id integer)", "the table organizations"),
    "table": ("create table users (id integer)", "the table users"),
    "materialized view": ("create materialized view services as select 1 as id", "the materialized view services"),
    "sequence": ("create sequence sessions", "the sequence sessions"),
    "index": ("create table planets (id integer); create index jobs_due on planets (id)", "the index jobs_due"),
    "type": ("create type teams as enum ('a')", "the type teams"),
    "function": (
        "create function first_id_of(text) returns text language sql as $$ select $1 $$",
        "the function first_id_of",
    ),
    "schema": ("create schema partitions", "the schema partitions"),
    "edition": (
        "create function schema_edition(out number integer, out digest text) language sql immutable as $$ select 99, 'x' $$",
        "the function schema_edition",
    ),
    "many": (
        "create table users (); create table teams (); create table jobs (); create table plans (); create view services as select 1 as id",
        "the table jobs, the table plans, the view services and 2 more",
    ),
    "an emptied list": (
        "create table schema_migrations (number integer, name text, checksum text, applied_at timestamptz); create table users ()",
        "the table users",
    ),
}


@pytest.mark.parametrize("case", OURS)
async def test_an_empty_list_with_a_name_of_ours_is_refused_and_nothing_is_written(empty_database_url: str, case: str) -> None:
    made, named = OURS[case]
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(made.encode())
    await _refused(
        empty_database_url,
        f"The database has {named}, but no migrations of Postern: it belongs to another program, or a restore into it is under way or "
        "has failed, so give Postern an empty database",
    )


OTHERS: Final = {
    "Rails": "version varchar primary key",
    "Ecto": "version bigint primary key, inserted_at timestamp",
    "golang-migrate": "version bigint primary key, dirty boolean not null",
    "a column renamed": "number integer primary key, title text, checksum text, applied_at timestamptz, needs integer",
    "a column of another type": "number text, name text, checksum text, applied_at timestamptz, needs integer",
    "no column": "",
}


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("kind", ["table", "view"])
async def test_the_list_of_another_program_is_refused_and_nothing_is_written(empty_database_url: str, case: str, kind: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        if kind == "table":
            connection.execute(f"create table schema_migrations ({OTHERS[case]})".encode())
        else:
            connection.execute(f"create table others ({OTHERS[case]}); create view schema_migrations as table others".encode())
    await _refused(
        empty_database_url,
        "The database has a table schema_migrations of another program, without the columns of Postern's: give Postern an empty database",
    )


async def _refused(url: str, sentence: str) -> None:
    before = await all_of(url, _EVERYTHING)
    for act in (migrate.migrate(url, silent), migrate.require_current(url), migrate.plan_of_all(url)):
        with pytest.raises(SchemaMismatch) as caught:
            await act
        assert str(caught.value) == sentence
    assert await all_of(url, _EVERYTHING) == before


@pytest.mark.parametrize(
    "made", ["create view organizations as select 1 as id", "create table schema_migrations (version bigint)"], ids=["name", "list"]
)
async def test_the_command_says_one_sentence(empty_database_url: str, tmp_path: Path, made: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(made.encode())
    for arguments in ((), ("--plan",)):
        run = partial(
            command, tmp_path, "migrate", *arguments, POSTERN_DATABASE_URL=empty_database_url, POSTERN_ENCRYPTION_KEYS=f"k:{'A' * 43}="
        )
        done = await trio.to_thread.run_sync(run)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
        assert done.stderr.startswith("postern: The database has ")


async def test_tables_of_other_names_are_nobodys_business(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("create table planets (id integer primary key); create function orbit() returns int language sql as 'select 1'")
    await migrate.migrate(empty_database_url, silent)
    assert await migrate.require_current(empty_database_url) == []


async def test_many_that_begin_at_once_do_not_take_each_other_for_another_program(empty_database_url: str) -> None:
    done: list[int] = []

    async def one() -> None:
        done.append(len(await migrate.migrate(empty_database_url, silent)))

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(one)
    assert sorted(done) == [0] * 7 + [len(migrate.shipped())]


async def test_a_list_that_another_process_writes_during_the_look_is_no_fault(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, migrated = migrate._applied, False

    async def read_before_it_is_there(connection: Connection) -> Any:
        nonlocal migrated
        applied = await read(connection)
        if not migrated:
            migrated = True
            await migrate.migrate(empty_database_url, silent)
        return applied

    monkeypatch.setattr(migrate, "_applied", read_before_it_is_there)
    assert (await migrate.plan(empty_database_url)).lacking == []
