"""What moves with an organization, for the export and the import: its tables, their values, and the digest of its log."""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from hashlib import sha256
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from adapters.postgres.statements import Transaction
from adapters.postgres.tables.declaring import ALWAYS_LEFT, Moved
from adapters.postgres.tables.every import MOVED, TABLES
from core.domain.identity.upstream.connections import SamlSettings
from core.domain.identity.upstream.ldap.settings import LdapSettings
from core.domain.platform.moving import UnfitFile
from core.domain.tenancy.profile_fields import FieldRule
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
    """Reads from PostgreSQL's catalog the tables that move: their columns and their references. They are in an order in which each row
    finds the rows that it needs, but for users, who come before all, and the organization itself.
    """
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
        {column: sealing.key for column, sealing in TABLES[name].sealed.items() if column not in MOVED[name].leaves},
        {one.column_name: one.type for one in moved},
        frozenset(one.column_name for one in moved if one.is_nullable == "YES"),
    )


# The same digest as `digest_of_migrations` makes.
MIGRATIONS: Final = """(
        select encode(sha256(convert_to(string_agg(line, chr(10) order by number), 'UTF8')), 'hex')
          from (select number, to_char(number, 'FM0000') || '_' || name || ' ' || checksum as line from schema_migrations) as lines
    )"""

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


Row = dict[str, msgspec.Raw]
Decoders = Mapping[str, "msgspec.json.Decoder[Any]"]


def _whole(bits: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]


# Times that nobody can represent are found among all rows.
TIME = Annotated[str, msgspec.Meta(pattern=r"\A(-?infinity|[0-9]{4,6}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}[+-][0-9:]{2,8})\Z")]
_TYPES: Final[Mapping[str, Any]] = {
    "text": str,
    "_text": list[str],
    "bool": bool,
    "int2": _whole(16),
    "int4": _whole(32),
    "int8": _whole(64),
    "uuid": UUID,
    "_uuid": list[UUID],
    "timestamptz": TIME,
    "bytea": Annotated[str, msgspec.Meta(pattern=r"\A\\x([0-9a-f]{2})*\Z")],
    "jsonb": dict[str, Any] | list[Any] | str | int | float | bool,
    "inet": str,
}


class _WholeRule(FieldRule, forbid_unknown_fields=True):
    """A bound that nobody knows would end every list of fields."""


# Documents that statements about all organizations look into: one of another form would end them for everybody.
_DOCUMENTS: Final[Mapping[tuple[str, str], Any]] = {
    ("upstream_providers", "saml"): SamlSettings,
    ("upstream_providers", "ldap"): LdapSettings,
    ("all_profile_fields", "rule"): _WholeRule,
}


def decoders_of(table: MovedTable) -> Decoders:
    found: dict[str, msgspec.json.Decoder[Any]] = {}
    for column in table.columns:
        kind = _DOCUMENTS.get((table.name, column), _TYPES[table.types[column]])
        found[column] = msgspec.json.Decoder(kind | None if column in table.optional else kind)
    return found


def read_row(decoders: Decoders, row: Row) -> dict[str, Any]:
    """Reads the values of a file's row as the types of their columns. PostgreSQL would refuse them as well, without the row and the column.
    Raises `UnfitFile`, with the name of the column.
    """
    values: dict[str, Any] = {}
    for column, value in row.items():
        try:
            values[column] = decoders[column].decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise UnfitFile(f"{column}: is not of the form that it must have") from None
    return values


class LogDigest:
    """The digest that proves an audit log on its way: of all entries in their order, with no key, so that both installations can compute
    it. `digest` is SHA-256 over the digest before and the entry's content, in PostgreSQL's own form, and begins with zeros.
    """

    def __init__(self) -> None:
        self.entries = 0
        self._digest = bytes(32)

    def take(self, content: bytes) -> None:
        self._digest = sha256(self._digest + content).digest()
        self.entries += 1

    @property
    def digest(self) -> str:
        return self._digest.hex()
