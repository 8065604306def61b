"""A migration that changes or removes rows of before names their tables, so that a rehearsal compares all others."""

import re
from typing import Final

import pytest

from adapters.postgres.migrate import Migration, shipped

_CHANGES: Final = re.compile(
    r"^\s*(?:update|delete\s+from|truncate(?:\s+table)?|drop\s+table(?:\s+if\s+exists)?|alter\s+table)\s+(?:only\s+)?(?P<table>\w+)(?P<rest>[^;]*)",
    re.MULTILINE | re.IGNORECASE,
)
_LOSES: Final = re.compile(r"\bdrop\s+column\b|\balter\s+column\s+\w+\s+(?:set\s+data\s+)?type\b|\brename\s+column\b", re.IGNORECASE)


def changed(sql: str) -> set[str]:
    """The tables whose rows these statements change, as far as words tell."""
    return {one["table"] for one in _CHANGES.finditer(sql) if not one[0].strip().lower().startswith("alter") or _LOSES.search(one["rest"])}


@pytest.mark.parametrize("migration", shipped()[1:], ids=str)
def test_a_migration_names_the_tables_whose_rows_it_changes(migration: Migration) -> None:
    assert changed(migration.sql) <= set(migration.changed_tables), "add `-- changes rows of TABLE, …` to the comment at its beginning"


@pytest.mark.parametrize(
    ("sql", "tables", "named"),
    [
        (
            "-- additive\n-- changes rows of users, sessions\nupdate users set x = 1;\ndelete from sessions;",
            {"users", "sessions"},
            True,
        ),
        ("-- additive\n-- changes rows of users\nalter table users drop column x;", {"users"}, True),
        ("-- additive\nalter table users add column x text;\ncreate index x on users (x);", set(), True),
        ("-- additive\nupdate users set x = 1;\n-- changes rows of users\n", {"users"}, False),
        ("-- additive\ndrop table if exists users;", {"users"}, False),
    ],
)
def test_the_header_and_the_words(sql: str, tables: set[str], named: bool) -> None:
    migration = Migration(2, "later", sql, 0)
    assert changed(sql) == tables
    assert (tables <= set(migration.changed_tables)) is named
