"""A list of small things in a form, such as the scopes of an API: a row of fields for each, in place of lines in a language of their own.

All fields of all rows have one name in the form, and the browser sends them in their order. So a row has the same number of values always,
and none of its fields is a box to tick, which browsers leave out. A button adds a row and another takes one away: without scripts, both
send the form, which comes back with everything that was typed.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from core.frozen import Frozen
from ports.texts import Text

PRESSED: Final = "pressed"
"""The name of the buttons that add a row or take one away. Their value is the name of the field, and `ADD` or the number of the row."""
ADD: Final = "add"

Row = Mapping[str, str]
"""The texts of a row, by the names of its fields."""


class RowField(Frozen, kw_only=True):
    name: str
    """As the things in the body have it."""
    label: str
    """A text key."""
    hint: str = ""
    """A text key."""
    options: tuple[tuple[str, str], ...] = ()
    """Values and text keys, where there is a choice."""
    bounds: tuple[int, int] | None = None
    """The least and the largest number, where it is one."""
    longest: int | None = None
    is_folded: bool = False
    """Whether the row needs it seldom. It is in sight where it says something."""


class Rows(Frozen, kw_only=True):
    fields: tuple[RowField, ...]
    one: str
    """The text key of the name of a row, with `{number}`."""
    add: str
    """The text key of the button that adds a row."""
    more: str
    """The text key of what opens the fields that are folded."""
    said: Callable[[Text, Row], tuple[str, str]]
    """A row as people say it: its name, and what it is."""
    faults: Mapping[str, str] = MappingProxyType({})
    """The field that a refusal is about, by the refusal's words, where it names the row alone. By default the first one."""

    def field(self, name: str) -> RowField | None:
        return next((one for one in self.fields if one.name == name), None)


def cut(rows: Rows, given: Sequence[str]) -> list[Row]:
    """The rows in the texts of a form. What misses at the end is empty: the form comes from a browser, and may be anything."""
    names = [one.name for one in rows.fields]
    padded = [*(one.strip() for one in given), *[""] * (-len(given) % len(names))]
    return [dict(zip(names, padded[at : at + len(names)], strict=True)) for at in range(0, len(padded), len(names))]


def filled(rows: Rows, given: Sequence[str]) -> list[Row]:
    """The rows that say something."""
    return [one for one in cut(rows, given) if any(one.values())]


def joined(rows: Rows, each: Sequence[Row]) -> list[str]:
    """The rows as the texts of a form."""
    return [one[field.name] for one in each for field in rows.fields]


def pressed_on(rows: Rows, field: str, form: Any) -> list[str] | None:
    """The texts after one of the buttons of this field. None if none was pressed."""
    of, _, what = getattr(form, PRESSED, "").partition(" ")
    if of != field:
        return None
    given = cut(rows, getattr(form, field))
    kept = [one for number, one in enumerate(given, 1) if any(one.values()) and str(number) != what]
    return [*joined(rows, kept), *([""] * len(rows.fields) if what == ADD else ())]


def lines_of(rows: Rows, given: Sequence[str], text: Text) -> list[str]:
    """The rows as people say them, a line each."""
    return [": ".join(filter(None, rows.said(text, one))) for one in filled(rows, given)]


def place_of(field: str, line: int, name: str) -> str:
    """The id of a field in a row, where its error stands. `line` counts from 0."""
    return f"{field}-{line + 1}-{name}"
