"""Finds names in the database that the migrations, or the views and functions, would create."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from psycopg.rows import class_row

from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrating.schema import MARK
from core.frozen import Frozen

_MADE: Final = re.compile(
    r"^\s*create\s+(?:or\s+replace\s+)?(?:unique\s+|unlogged\s+)?(?P<kind>table|view|index|sequence|type|domain|function|schema)\s+"
    r"(?:concurrently\s+)?(?:if\s+not\s+exists\s+)?(?P<name>\w+)",
    re.MULTILINE | re.IGNORECASE,
)
# The index of such a constraint has its name.
_CONSTRAINT: Final = re.compile(r"\bconstraint\s+(?P<name>\w+)\s+(?:unique|primary|exclude)\b", re.IGNORECASE)
_MOST_NAMED: Final = 3


class MadeNames(Frozen):
    relations: Sequence[str]
    """Tables, views, indexes and sequences share their names with types."""
    functions: Sequence[str]
    schemas: Sequence[str]


class NamedThing(Frozen):
    kind: str
    name: str

    def __str__(self) -> str:
        return f"the {self.kind} {self.name}"


def names_in(statements: Iterable[str]) -> MadeNames:
    """The names that these files make, and that of the edition."""
    relations, functions, schemas = set[str](), {MARK}, set[str]()
    for text in statements:
        for made in _MADE.finditer(text):
            match made["kind"].lower():
                case "function":
                    functions.add(made["name"])
                case "schema":
                    schemas.add(made["name"])
                case _:
                    relations.add(made["name"])
        relations.update(made["name"] for made in _CONSTRAINT.finditer(text))
    return MadeNames(sorted(relations), sorted(functions), sorted(schemas))


async def found_in(connection: Connection, names: MadeNames) -> Sequence[NamedThing]:
    """What is there under these names, tables and views first.

    A database without a list of migrations may belong to another program. The first migration would fail at the first of its names. But the
    views and functions come in a transaction of their own, and a function would replace the other program's. So `migrate` looks for every
    name before it writes.
    """
    parameters = {"relations": list(names.relations), "functions": list(names.functions), "schemas": list(names.schemas)}
    return await (await connection.cursor(row_factory=class_row(NamedThing)).execute(_FOUND, parameters)).fetchall()


def listed(found: Sequence[NamedThing]) -> str:
    named = ", ".join(map(str, found[:_MOST_NAMED]))
    return f"{named} and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else named


_FOUND: Final = """
    select kind, name
      from (
               select case relkind when 'v' then 'view' when 'm' then 'materialized view' when 'i' then 'index' when 'I' then 'index'
                                   when 'S' then 'sequence' when 'c' then 'type' when 'f' then 'foreign table' else 'table'
                      end as kind,
                      relname::text as name, 1 as place
                 from pg_catalog.pg_class
                where relnamespace = to_regnamespace('public') and relname = any(%(relations)s)
                union all
               select 'type', typname::text, 2
                 from pg_catalog.pg_type
                where typnamespace = to_regnamespace('public') and typname = any(%(relations)s) and typrelid = 0
                union all
               select distinct 'function', proname::text, 3
                 from pg_catalog.pg_proc
                where pronamespace = to_regnamespace('public') and proname = any(%(functions)s)
                union all
               select 'schema', nspname::text, 4 from pg_catalog.pg_namespace where nspname = any(%(schemas)s)
           ) as found
     order by place, name
"""
