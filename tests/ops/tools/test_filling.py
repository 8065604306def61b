"""What fills a database lets no trigger run, and writes what the triggers would have written."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from ops.bench.filling import fill_services, fill_tenancy
from ops.bench.filling.fill import grow
from tests.conftest import fresh_database

# Of tables in parts by month, only the whole.
_COLUMNS = """
    select pg_class.relname, attname, atttypid in ('integer'::regtype, 'bigint'::regtype)
      from pg_class
      join pg_attribute on attrelid = pg_class.oid and attnum > 0 and not attisdropped
     where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
"""
_TRIGGERS = "select tgrelid::regclass::text, tgname from pg_trigger where not tgisinternal and tgparentid = 0"

FILLERS: dict[str, Callable[[str], object]] = {
    "accounts": lambda url: grow(url, 20, 100, 100),
    "organizations": lambda url: fill_tenancy.grow_tenancy(url, fill_tenancy.Size(5, 20, 100, made=3)),
    "services": lambda url: fill_services.grow_services(url, fill_services.Size(services=5, users=2_100, keys=10)),
}


@pytest.fixture
def other_database(worker_id: str) -> Iterator[str]:
    yield from fresh_database(f"filled_{worker_id}")


def _let_triggers_run(url: str) -> None:
    """Even while whoever fills wants none."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table, trigger in connection.execute(_TRIGGERS).fetchall():
            statement = sql.SQL("alter table {} enable always trigger {}").format(sql.Identifier(table), sql.Identifier(trigger))
            connection.execute(statement)


def _look(url: str) -> dict[str, Any]:
    """Of each column, how many rows have a value, and what the numbers are together."""
    found = {}
    with psycopg.connect(url) as connection:
        for table, column, is_number in connection.execute(_COLUMNS).fetchall():
            asked = sql.SQL("select count({column}), {total} from {table}").format(
                table=sql.Identifier(table),
                column=sql.Identifier(column),
                total=sql.SQL("sum({})").format(sql.Identifier(column)) if is_number else sql.SQL("null"),
            )
            found[f"{table}.{column}"] = connection.execute(asked).fetchone()
    return found


@pytest.mark.parametrize("name", list(FILLERS))
def test_a_database_that_was_filled_without_triggers_has_what_they_would_have_written(
    name: str, database_url: str, other_database: str
) -> None:
    _let_triggers_run(other_database)
    FILLERS[name](database_url)
    FILLERS[name](other_database)
    filled, expected = _look(database_url), _look(other_database)
    assert {column: value for column, value in filled.items() if value != expected[column]} == {}
    if name == "organizations":
        assert filled["held_accounts.user_id"] == (15, None)
        assert filled["all_organizations.member_count"] == (5, 100)
