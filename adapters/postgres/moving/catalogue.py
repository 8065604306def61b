"""What PostgreSQL's catalogue says of the tables that move: their columns, their references, and the order in which rows may arrive."""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Final

from adapters.postgres.tables.every import MOVED, TABLES
from adapters.postgres.tables.moving import ALWAYS_LEFT, Moved
from adapters.postgres.transaction import Transaction
from core.frozen import Frozen

ORGANIZATIONS: Final = "all_organizations"
USERS: Final = "users"
_SERVICES: Final = "all_services"
_TIME: Final = "timestamptz"
_OF_ORGANIZATION: Final = ("org_id", "organization_id")


class _Column(Frozen):
    table_name: str
    column_name: str
    type: str
    is_nullable: str


class _Reference(Frozen):
    child: str
    by_column: str
    parent: str
    on_delete: str
    columns: int


class Reference(Frozen):
    column: str
    parent: str
    may_be_gone: bool
    """Whether the row stays when the other row goes."""


class MovedTable(Frozen):
    """`columns` are those in the file, in order. `sealed` are those whose values are opened for it, with the column of the row's key."""

    name: str
    declared: Moved
    columns: tuple[str, ...]
    owner: str | None
    """The column that names the organization."""
    service: str | None
    """The column that names one of its services, by a foreign key."""
    references: tuple[Reference, ...]
    sealed: Mapping[str, str]
    types: Mapping[str, str]
    """The name of each column's type in PostgreSQL."""
    optional: frozenset[str]
    """The columns that may be null."""

    @property
    def times(self) -> tuple[str, ...]:
        return tuple(column for column, kind in self.types.items() if kind == _TIME)

    @property
    def people(self) -> tuple[Reference, ...]:
        return tuple(one for one in self.references if one.parent == USERS)

    @property
    def person(self) -> str | None:
        """The column of the person whom a row is about, and without whom there is no such row."""
        return next((one.column for one in self.people if not one.may_be_gone), None)


async def moved_tables(transaction: Transaction) -> Sequence[MovedTable]:
    """In an order in which each row finds the rows that it needs, but for people, who come before all, and the organization itself."""
    columns = await transaction.ask(_Column, _COLUMNS)
    references = await transaction.ask(_Reference, _REFERENCES)
    order = TopologicalSorter({name: set[str]() for name in MOVED})
    order.add(_SERVICES, ORGANIZATIONS)
    for one in references:
        if one.child in MOVED and one.parent in MOVED and one.child != one.parent:
            order.add(one.child, one.parent)
    return [_table(name, columns, [one for one in references if one.child == name and one.columns == 1]) for name in order.static_order()]


def _table(name: str, all_columns: Sequence[_Column], references: Sequence[_Reference]) -> MovedTable:
    declared = MOVED[name]
    own = [one for one in all_columns if one.table_name == name]
    names = tuple(one.column_name for one in own)
    left = ALWAYS_LEFT.union(declared.leaves)
    moved = [one for one in own if one.column_name not in left]
    return MovedTable(
        name,
        declared,
        tuple(one.column_name for one in moved),
        "id" if name == ORGANIZATIONS else next((column for column in _OF_ORGANIZATION if column in names), None),
        next((one.by_column for one in references if one.parent == _SERVICES), None),
        tuple(
            Reference(one.by_column, one.parent, one.on_delete == "n")
            for one in references
            if one.parent in MOVED.keys() | {USERS} and one.by_column not in left
        ),
        {column: sealing.key for column, sealing in TABLES[name].sealed.items()},
        {one.column_name: one.type for one in moved},
        frozenset(one.column_name for one in moved if one.is_nullable == "YES"),
    )


_COLUMNS: Final = """
    select table_name::text, column_name::text, udt_name::text as type, is_nullable::text
      from information_schema.columns
     where table_schema = 'public' and is_generated = 'NEVER'
     order by table_name, ordinal_position
"""

_REFERENCES: Final = """
    select child.relname::text as child, pg_attribute.attname::text as by_column, parent.relname::text as parent,
           confdeltype::text as on_delete, cardinality(conkey) as columns
      from pg_constraint
      join pg_class as child on child.oid = conrelid
      join pg_class as parent on parent.oid = confrelid
      join pg_attribute on pg_attribute.attrelid = conrelid and pg_attribute.attnum = conkey[1]
     where contype = 'f' and child.relnamespace = 'public'::regnamespace
     order by 1, 2
"""
