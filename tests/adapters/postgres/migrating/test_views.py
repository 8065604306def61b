"""The views that show the rows of a table: their lists have every column that the table has by its migrations."""

import re
from typing import Final

import pytest

from adapters.postgres.migrating.schema import NotReplaceable
from ops.written.functions import FILE
from ops.written.views import VIEWS, View, columns_of, migrations, with_columns
from tests.adapters.postgres.test_migrate import query

_COLUMNS: Final = "select attname from pg_attribute where attrelid = '{}'::regclass and attnum > 0 and not attisdropped order by attnum"
OTHERS: Final = {
    "audit_log": "it joins two tables",
    "all_signing_keys": "it has what a process of the release before reads, and no more",
}
WORLDS: Final = View("worlds", "all_worlds", frozenset({"deleted_at"}), {"size": "coalesce(width, height)"})
FILE_OF_WORLDS: Final = """-- edition 1

create or replace view worlds as
    select id, coalesce(width, height) as size,
           name
      from all_worlds
     where deleted_at is null;
"""
MADE: Final = """
create table all_worlds (
    id uuid primary key,
    name       text not null,  -- of the world
    -- its sun
    width integer check (width > 0),
    deleted_at timestamptz,
    constraint all_worlds_name check (name <> ''),
    check (
        width is not null
    )
);
create table worlds_of_others (
    id uuid
);
"""
COLUMNS: Final = ("id", "name", "deleted_at")


async def names(url: str, relation: str) -> list[str]:
    return [str(name) for (name,) in await query(url, _COLUMNS.format(relation))]


def test_the_views_have_the_columns_of_their_tables() -> None:
    file = FILE.read_text(encoding="utf-8")
    for view in VIEWS:
        assert with_columns(file, view, columns_of(view.table, migrations())) == file, (
            f"{view.table} has a column that {view.name} lacks: raise the number in the first line of the file, "
            "and run: .venv/bin/python -m ops.written.functions; or say in ops/written/views.py that the view leaves it out"
        )


def test_every_view_is_written_or_says_why_it_is_not() -> None:
    there = set(re.findall(r"^create or replace view (\w+)", FILE.read_text(encoding="utf-8"), re.MULTILINE))
    assert there == {view.name for view in VIEWS} | OTHERS.keys()


async def test_the_migrations_make_the_columns_that_are_read_from_their_text(database_url: str) -> None:
    for view in VIEWS:
        table = await names(database_url, view.table)
        assert sorted(columns_of(view.table, migrations())) == sorted(table)
        assert view.left_out <= {*table}
        assert {*await names(database_url, view.name)} == {*table, *view.computed} - view.left_out


def test_columns_come_and_go_by_migrations() -> None:
    assert columns_of("all_worlds", [MADE]) == ["id", "name", "width", "deleted_at"]
    later = "alter table all_worlds\n    add column sun text,\n    drop column width;\nalter table other_worlds add column moon text;\n"
    assert columns_of("all_worlds", [MADE, later]) == ["id", "name", "deleted_at", "sun"]


def test_a_new_column_stands_at_the_end() -> None:
    assert with_columns(FILE_OF_WORLDS, WORLDS, COLUMNS) == FILE_OF_WORLDS
    more = with_columns(FILE_OF_WORLDS, WORLDS, ("id", "age", "name", "deleted_at", "sun"))
    assert more == FILE_OF_WORLDS.replace("           name\n", "           name, age, sun\n")
    long = [f"a_rather_long_name_{number}" for number in range(9)]
    text = with_columns(FILE_OF_WORLDS, WORLDS, (*COLUMNS, *long))
    assert max(map(len, text.splitlines())) <= 140
    assert with_columns(text, WORLDS, (*COLUMNS, *long)) == text
    assert re.findall(r"a_rather_long_name_\d", text) == long


def test_a_view_loses_no_column_by_the_command() -> None:
    with pytest.raises(NotReplaceable, match="with columns that all_worlds lacks, or that it leaves out: name"):
        with_columns(FILE_OF_WORLDS, WORLDS, ("id", "deleted_at"))
    with pytest.raises(NotReplaceable, match="have no view moons of the rows of all_moons"):
        with_columns(FILE_OF_WORLDS, View("moons", "all_moons", frozenset()), COLUMNS)
