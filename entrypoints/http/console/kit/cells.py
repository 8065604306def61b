"""The cells of tables and the facts of records, and the sign of a thing without a picture. A column says what it shows, and how."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from core.domain.identity.profiles import SHADES, Portrait
from core.domain.tenancy.roles import BuiltInRole
from core.frozen import Frozen, replace
from entrypoints.http.machinery.endpoints import Endpoint
from ports.texts import Text

_NAMELESS: Final = "?"


def mark_of(name: str, thing: UUID, picture: str = "") -> Portrait:
    """The colour comes from the id, so it stays when the name changes."""
    return Portrait(picture, next((letter for letter in name if letter.isalnum()), _NAMELESS).upper(), thing.int % SHADES)


Value = Callable[[Any], Any]


class Labelled(Protocol):
    """What a form asks for: a column of it has its name and its label."""

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str: ...


Part = str | Value | Labelled


class Tone(StrEnum):
    """The mark beside a state. A state is a word first."""

    GOOD = "good"
    PLAIN = ""
    WARN = "warn"
    BAD = "bad"


Words = Callable[[Any], tuple[str, Tone]]
"""The text key and the tone of a value."""


class Cell(NamedTuple):
    """What the template shows. `kind`: text, code, copy, time, number, state, list, link, acts."""

    kind: str
    value: Any
    href: str = ""
    tone: Tone = Tone.PLAIN
    beside: str = ""
    """A second line, such as an address below a name."""
    mark: Portrait | None = None
    """The sign before the value."""


class Column(Frozen):
    label: str
    """The text key of the heading."""
    kind: str
    value: Value
    words: Words | None = None
    """For a state."""
    beside: Value | None = None
    link: Callable[[Any, Mapping[str, str]], str] | None = None
    """The address that the cell leads to, from the row and the values of the page's path."""
    of: tuple[Endpoint, ...] = ()
    """The endpoints of the pages that the cell leads to. Whoever may not call them all sees no link."""
    said: Callable[[Any, Text], str | Sequence[str]] | None = None
    """A sentence about the row, or several, in place of a value."""
    mark: Callable[[Any], Portrait] | None = None
    """The sign of the thing in the row."""
    beside_said: Callable[[Any, Text], str] | None = None
    """The second line, where it is in the reader's words."""
    values: tuple[str, ...] = ()
    """All values that have words."""

    def cell(self, row: Any, text: Text, path: Mapping[str, str]) -> Cell:
        value = self.value(row) if self.said is None else self.said(row, text)
        href = "" if self.link is None else self.link(row, path)
        beside = "" if self.beside is None else str(self.beside(row) or "")
        if self.beside_said is not None:
            beside = self.beside_said(row, text)
        if value is None or value in ("", [], ()):
            return Cell("none", "", href, beside=beside)
        if self.words is not None:
            key, tone = self.words(value)
            return Cell("state", text(key), href, tone, beside)
        if self.kind == "words":
            return Cell("text", in_words(field_of(self.label), value, text), href, beside=beside)
        return Cell(self.kind, value, href, beside=beside, mark=None if self.mark is None else self.mark(row))


# The largest unit of which the time is a whole number.
_UNITS: Final = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))


def lasting(time: timedelta, text: Text) -> str:
    """A length of time in words: 7776000 seconds are 90 days."""
    seconds = int(time.total_seconds())
    unit, length = next(one for one in _UNITS if seconds % one[1] == 0)
    return str(text(f"console.lasts.{unit}", count=seconds // length))


def field_of(label: str) -> str:
    """The name under which the values of a field have their words: the last step of its label."""
    return label.rpartition(".")[2]


def value_key(field: str, value: str) -> str:
    """The text key of one of our values. Each field has words of its own, since `on` means something else in each."""
    return f"console.value.{field}.{_step(value)}"


def _step(value: str) -> str:
    return str(value).lower().replace("-", "_").replace(".", "_").replace(":", "_")


def in_words(field: str, value: Any, text: Text) -> str:
    """A value of ours, such as a member of an enumeration, as people say it of this field; several with commas."""
    if isinstance(value, str):
        return str(text(value_key(field, value)))
    return ", ".join(in_words(field, one, text) for one in value)


def role_in_words(role: str, text: Text) -> str:
    """A built-in role of the organization in the reader's language, or an own role by its short name."""
    return str(text(f"roles.{role}")) if role in frozenset(BuiltInRole) else role


def role(value: str | Value) -> Column:
    """A role in the organization."""
    of = _of(value)
    return sentence(lambda row, text: role_in_words(of(row), text) if of(row) else "", "console.field.role")


def _of(name: Part) -> Value:
    if isinstance(name, str):
        return attrgetter(name)
    return name if callable(name) else attrgetter(name.name)


def _label(name: Part, label: str) -> str:
    if isinstance(name, str):
        return label or f"console.field.{name.rpartition('.')[2]}"
    if callable(name):
        assert label  # noqa: S101 - a bug in a declaration: a computed column has no name of its own
        return label
    return label or name.label or _label(name.name, "")


def words(name: Part, values: Iterable[str], label: str = "") -> Column:
    """Values of ours, in the reader's language: some of `values`, each of which has its words."""
    return Column(_label(name, label), "words", _of(name), values=tuple(values))


def plain(name: Part, label: str = "", *, beside: str | Value | None = None) -> Column:
    """Text that people wrote."""
    return Column(_label(name, label), "text", _of(name), beside=None if beside is None else _of(beside))


def signed(column: Column, of: Callable[[Any], tuple[str, UUID] | tuple[str, UUID, str]]) -> Column:
    """The column with the sign of the thing before its name. `of` has the name and the id, and a picture's path, if any."""
    return replace(column, mark=lambda row: mark_of(*of(row)))


def code(name: Part, label: str = "") -> Column:
    """Text for machines."""
    return Column(_label(name, label), "code", _of(name))


def copied(name: Part, label: str = "") -> Column:
    """Text for machines, with a button that copies it."""
    return Column(_label(name, label), "copy", _of(name))


def when(name: Part, label: str = "") -> Column:
    return Column(_label(name, label), "time", _of(name))


def number(name: Part, label: str = "") -> Column:
    return Column(_label(name, label), "number", _of(name))


def listed(name: Part, label: str = "") -> Column:
    """Several texts."""
    return Column(_label(name, label), "list", _of(name))


def listed_in_words(said: Callable[[Any, Text], Sequence[str]], label: str) -> Column:
    """The same, in the reader's language."""
    return Column(label, "list", lambda row: row, said=said)


def yes_or_no(name: Part, label: str = "", *, good: bool | None = None) -> Column:
    """`good` is the value that deserves a good mark, if one does."""

    def said(value: Any) -> tuple[str, Tone]:
        return ("console.yes" if value else "console.no"), (Tone.GOOD if good is not None and value is good else Tone.PLAIN)

    return Column(_label(name, label), "state", _of(name), said)


def state(
    name: str | Value, said: Mapping[Any, tuple[str, Tone]] | Callable[[Any], tuple[str, Tone]], label: str = "console.field.state"
) -> Column:
    """A state as a word. `said` has the text key and the tone of each value."""
    return Column(label, "state", _of(name), said.__getitem__ if isinstance(said, Mapping) else said)


def sentence(said: Callable[[Any, Text], str], label: str, *, beside: str | Value | None = None) -> Column:
    """A sentence about the row, in the reader's language."""
    return Column(label, "text", lambda row: row, beside=None if beside is None else _of(beside), said=said)


def linked(column: Column, to: Callable[[Any, Mapping[str, str]], str], *of: Endpoint) -> Column:
    return replace(column, link=to, of=of)


def rows_of(columns: Sequence[Column], rows: Sequence[Any], text: Text, path: Mapping[str, str]) -> Sequence[Sequence[Cell]]:
    return [[column.cell(row, text, path) for column in columns] for row in rows]


class RowAct(NamedTuple):
    """A button in a row."""

    label: str
    """In the reader's language."""
    at: str
    asks: bool
    """Whether a page of its own asks first. Otherwise the button is a form."""
    of: str
    """The name of the row, for people who do not see where the button stands."""


def is_over(at: datetime | None, now: datetime) -> bool:
    return at is not None and at <= now
