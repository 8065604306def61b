"""Maps columns of tables to fields of the domain: how values are stored, and how rows are read."""

import ipaddress
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, Generic, LiteralString, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from core.domain.formats import Json
from core.domain.mail import Email
from core.domain.requests import Listed
from core.frozen import Frozen, names_of

Item = TypeVar("Item")


def storable(value: Json) -> Json:
    """The value, with replacements for everything that jsonb refuses.

    Storing a text must never fail because of characters that a user typed or another server sent.
    """
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, Mapping):
        return {storable_text(name): storable(inner) for name, inner in value.items()}
    return [storable(inner) for inner in value]


def storable_text(text: str) -> str:
    """Without NUL, and without halves of surrogate pairs."""
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@lru_cache(maxsize=1024)
def storable_address(text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """None for text that is not an address. The zone of a link-local address is dropped: it has a meaning only on its own machine, and inet
    has no room for it.
    """
    if text is None:
        return None
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def array(words: Iterable[str]) -> str:
    """An array of words that need no quotes: numbers, times, ids, hexadecimal digits. The statement casts the array to its type.

    The text is in PostgreSQL's own form. A list would cost more time on the event loop's thread, because psycopg converts each element of a
    list separately.
    """
    return "{" + ",".join(words) + "}"


def array_of_texts(texts: Iterable[str]) -> str:
    """An array of any texts. The function replaces characters that PostgreSQL cannot store."""
    return "{" + ",".join([_quoted(text) for text in texts]) + "}"


def _quoted(text: str) -> str:
    escaped = storable_text(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class DueRow(Frozen):
    """Seconds until the first thing is due, less than zero when it is due already. None when nothing waits. See `due_in`."""

    due_in: float | None


def due_in(first: LiteralString) -> LiteralString:
    """An expression: the seconds from the statement's time to this one."""
    return f"extract(epoch from min({first}) - now())::double precision"


class IdRow(Frozen):
    """The row of `returning id`."""

    id: UUID


class CountRow(Frozen):
    count: int


class AnswerRow(Frozen):
    yes: bool


Thing = TypeVar("Thing", bound=Frozen)
Turn = Callable[[Any], Any]

_IDENTIFIER: Final = re.compile(r"[a-z][a-z0-9_]*")
_PLAIN: Final = (str, int, bool, float, bytes, datetime, date, timedelta, UUID)
_NOTHING: Final[Mapping[str, Any]] = {}


class Columns(Generic[Thing]):
    """Maps the columns of a table to the fields of an object of the domain. A declaration states it once.

        SERVICE = Columns(Service, "services", named={"organization": "org_id"}, texts=("name",), prefix="service_")

        ask(SERVICE.row, f"select {SERVICE.names} from services where id = %(id)s", …)
        tell(f"update services set {SERVICE.changes('id', 'created_at')} where id = %(id)s", SERVICE.values(service))

    A field that is named neither in `named` nor in `apart` has a column of its own name. How a value is read and written follows from the
    type of the field. A type that does not tell it, and a name that leads nowhere, stop the import.
    `tests/adapters/postgres/declarations/test_columns.py` compares every declaration with the tables.

    Look-ups of every request take their columns in their order, by `ask_in_order`, and have no declaration.
    """

    def __init__(
        self,
        thing: type[Thing],
        table: LiteralString,
        *,
        named: Mapping[str, LiteralString] = _NOTHING,
        apart: Collection[str] = (),
        texts: Collection[str] = (),
        empties: Collection[str] = (),
        derived: Collection[str] = (),
        turned: Mapping[str, tuple[Turn, Turn]] = _NOTHING,
        prefix: LiteralString = "",
    ) -> None:
        """`named` has the columns of fields whose name differs. Fields that are `apart` are read and written by the statements themselves.
        People write the fields in `texts`, so these are made storable. An empty text in `empties` is null in the table. What is `derived`
        is read, and never written. `turned` has two functions for a value class: one reads what the column has, the other gives what it
        gets. With a `prefix`, things of several tables fit into one row.
        """
        hints = get_type_hints(thing)
        names = names_of(thing)
        if unknown := [name for name in (*named, *apart, *texts, *empties, *derived, *turned) if name not in names]:
            raise TypeError(f"{thing.__name__}: there is no {', '.join(unknown)}")
        # Statements are made of these, so they are identifiers and nothing else.
        if unfit := [one for one in (table, *named.values(), f"{prefix}id") if not _IDENTIFIER.fullmatch(one)]:
            raise TypeError(f"{thing.__name__}: no identifier: {', '.join(unfit)}")
        self.thing: Final = thing
        self.table: Final = table
        self.columns: Final = {name: named.get(name, name) for name in names if name not in apart}
        self._prefix: Final = prefix
        self._empties: Final = tuple(empties)
        self._written: Final = {name: column for name, column in self.columns.items() if name not in derived}
        self._read_as: Final = [(name, f"{prefix}{name}") for name in self.columns]
        # Only the fields whose values differ from those of their columns.
        self._reads: Final[list[tuple[str, Turn]]] = []
        self._writes: Final[list[tuple[str, Turn]]] = []
        for name in self.columns:
            try:
                read, write = turned[name] if name in turned else _turns(hints[name], is_text=name in texts)
            except TypeError as fault:
                raise TypeError(f"{thing.__name__}.{name}: {fault}") from None
            if read is not None:
                self._reads.append((name, read))
            if write is not None:
                self._writes.append((name, write))
        ALL.append(self)

    @property
    def names(self) -> LiteralString:
        """The columns of a row, for a statement that reads the table."""
        return self.names_in(self.table)

    def names_in(self, table: LiteralString) -> LiteralString:
        """Those of a statement that calls the table so."""
        return ", ".join(f"{table}.{column} as {self._prefix}{name}" for name, column in self.columns.items())

    def row(self, **columns: Any) -> Thing:
        """The thing of a row. The columns that are not declared are fields that stand `apart`."""
        return self.thing(**(self._read(columns) | columns))

    def found(self, **columns: Any) -> Thing | None:
        """Like `row`. None for a row of nulls: a list without things has one, if an empty list and a missing place have to differ."""
        return None if columns[self._read_as[0][1]] is None else self.row(**columns)

    def counted(self, *, total: int, **columns: Any) -> tuple[int, Thing | None]:
        """Like `found`, for `page_of`."""
        return total, self.found(**columns)

    def taken(self, columns: dict[str, Any], **apart: Any) -> Thing:
        """The thing of a row that has more columns, with the fields that stand `apart`. The rest stays in `columns`."""
        return self.thing(**self._read(columns), **apart)

    def taken_or_none(self, columns: dict[str, Any], **apart: Any) -> Thing | None:
        """Like `taken`. None for columns of nulls: an outer join that finds nothing has them."""
        if columns[self._read_as[0][1]] is not None:
            return self.taken(columns, **apart)
        for _, column in self._read_as:
            del columns[column]
        return None

    def of_json(self, kept: Mapping[str, Any], **apart: Any) -> Thing:
        """The thing of a row that came as JSON."""
        return msgspec.convert({name: kept[column] for name, column in self.columns.items()} | apart, self.thing)

    def _read(self, columns: dict[str, Any]) -> dict[str, Any]:
        values = {name: columns.pop(column) for name, column in self._read_as}
        for name, read in self._reads:
            if values[name] is not None:
                values[name] = read(values[name])
        for name in self._empties:
            values[name] = values[name] or ""
        return values

    def values(self, thing: Thing) -> dict[str, Any]:
        """The parameters of a statement, by the names of the fields."""
        values = {name: getattr(thing, name) for name in self.columns}
        for name, write in self._writes:
            if values[name] is not None:
                values[name] = write(values[name])
        for name in self._empties:
            values[name] = values[name] or None
        return values

    def into(self, *more: LiteralString) -> LiteralString:
        """The columns of an insert, with `more` that are named like their parameters."""
        return ", ".join((*self._written.values(), *more))

    def inserted(self, *more: LiteralString) -> LiteralString:
        """The parameters of an insert."""
        return ", ".join(f"%({name})s" for name in (*self._written, *more))

    def changes(self, *but: str) -> LiteralString:
        """The assignments of an update, `but` those of fields that never change."""
        return ", ".join(f"{self.columns[name]} = %({name})s" for name in self._all(but))

    def sets(self, names: Collection[str]) -> LiteralString:
        """The assignments of an update that sets these fields, as far as they are columns."""
        return ", ".join(f"{column} = %({name})s" for name, column in self._written.items() if name in names)

    def document(self, names: Collection[str]) -> LiteralString:
        """These fields for `jsonb_build_object`, as far as they are columns."""
        return ", ".join(f"'{name}', {self.table}.{column}" for name, column in self.columns.items() if name in names)

    def replaced(self, *but: str) -> LiteralString:
        """The assignments of an insert that meets an older row, `but` those of fields that keep their value."""
        return ", ".join(f"{self.columns[name]} = excluded.{self.columns[name]}" for name in self._all(but))

    def _all(self, but: Collection[str]) -> Sequence[str]:
        if unknown := [name for name in but if name not in self._written]:
            raise TypeError(f"{self.thing.__name__}: there is no {', '.join(unknown)}")
        return [name for name in self._written if name not in but]


def page_of(rows: Sequence[tuple[int, Item | None]]) -> Listed[Item]:
    """The page of rows that each have the total. An empty page is one row of nulls, so that it has the total, too."""
    return Listed([item for _, item in rows if item is not None], rows[0][0] if rows else 0)


def listed(rows: Sequence[Item | None]) -> Sequence[Item] | None:
    """The things of a place. An empty place has one row of nulls. None without a row: there is no such place."""
    return [item for item in rows if item is not None] if rows else None


ALL: Final[list[Columns[Any]]] = []
"""Every declaration, for the test that compares them with the tables."""


def _turns(kind: Any, *, is_text: bool) -> tuple[Turn | None, Turn | None]:
    """How a value of this type is read, and how it is written. None where it stays as it is."""
    kind = _known(kind)
    origin = get_origin(kind) or kind
    if origin is str and is_text:
        return None, storable_text
    if origin is Email:
        return Email, attrgetter("address")
    if origin in _PLAIN and not is_text:
        return None, None
    if not isinstance(origin, type) or (is_text and issubclass(origin, Enum | Mapping)):
        raise TypeError(f"say in `turned` how {kind} is kept")
    if issubclass(origin, Enum):
        # Faster than a call of the class.
        return {one.value: one for one in origin}.__getitem__, attrgetter("value")
    if issubclass(origin, Mapping):
        return None, _document
    if issubclass(origin, Sequence | frozenset):
        read, write = _turns(get_args(kind)[0], is_text=is_text)
        made: Turn = frozenset if issubclass(origin, frozenset) else tuple
        return (made if read is None else _each(made, read)), (list if write is None else _each(list, write))
    raise TypeError(f"say in `turned` how {kind} is kept")


def _known(kind: Any) -> Any:
    """The type of the value when there is one, and what a name for a type stands for."""
    if get_origin(kind) in {Union, UnionType}:
        kinds = [one for one in get_args(kind) if one is not NoneType]
        if len(kinds) != 1:
            raise TypeError(f"say in `turned` which of {kind} it is")
        (kind,) = kinds
    while hasattr(kind, "__supertype__"):
        kind = kind.__supertype__
    return kind


def _each(made: Turn, turn: Turn) -> Turn:
    return lambda values: made(map(turn, values))


def _document(value: Mapping[str, Any]) -> Jsonb:
    return Jsonb(storable(value))
