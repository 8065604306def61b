"""Filters of SCIM (RFC 7644 section 3.4.2.2). A filter is parsed into a tree, and refused if it compares an attribute that we do not keep.
No part of a filter is ever ignored.
"""

import json
import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from core.domain.federation.scim.errors import InvalidFilter
from core.frozen import Frozen

LONGEST_FILTER: Final = 2000
MOST_COMPARISONS: Final = 20
_DEEPEST: Final = 20


class FilterField(StrEnum):
    """The attributes that a filter can compare, by name."""

    ID = "id"
    EXTERNAL_ID = "externalId"
    USER_NAME = "userName"
    EMAIL = "emails.value"
    ACTIVE = "active"
    DISPLAY_NAME = "displayName"
    MEMBER = "members.value"


class Operator(StrEnum):
    EQUALS = "eq"
    CONTAINS = "co"
    STARTS = "sw"
    ENDS = "ew"


class FilterComparison(Frozen):
    field: FilterField
    operator: Operator
    value: str | bool


class And(Frozen):
    parts: tuple["Filter", ...]


class Or(Frozen):
    parts: tuple["Filter", ...]


class Not(Frozen):
    part: "Filter"


Filter: TypeAlias = FilterComparison | And | Or | Not

_EQUALS: Final = frozenset({Operator.EQUALS})
_TEXT: Final = frozenset(Operator)


class Comparable(Frozen):
    """The attributes of a resource that a filter may name, in lower case, and the operators that each supports."""

    schema: str
    fields: Mapping[str, FilterField]
    operators: Mapping[FilterField, Collection[Operator]]


OF_USERS: Final = Comparable(
    "urn:ietf:params:scim:schemas:core:2.0:user:",
    {
        "id": FilterField.ID,
        "externalid": FilterField.EXTERNAL_ID,
        "username": FilterField.USER_NAME,
        "active": FilterField.ACTIVE,
        "emails": FilterField.EMAIL,
        "emails.value": FilterField.EMAIL,
        'emails[type eq "work"].value': FilterField.EMAIL,
    },
    {
        FilterField.ID: _EQUALS,
        FilterField.EXTERNAL_ID: _EQUALS,
        FilterField.USER_NAME: _TEXT,
        FilterField.EMAIL: _TEXT,
        FilterField.ACTIVE: _EQUALS,
    },
)
OF_GROUPS: Final = Comparable(
    "urn:ietf:params:scim:schemas:core:2.0:group:",
    {
        "id": FilterField.ID,
        "externalid": FilterField.EXTERNAL_ID,
        "displayname": FilterField.DISPLAY_NAME,
        "members": FilterField.MEMBER,
        "members.value": FilterField.MEMBER,
    },
    {FilterField.ID: _EQUALS, FilterField.EXTERNAL_ID: _EQUALS, FilterField.DISPLAY_NAME: _EQUALS, FilterField.MEMBER: _EQUALS},
)

# A token is a text in quotes, a parenthesis, or a word. A word may have a part in brackets, as attributes do.
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<mark>[()])|(?P<word>[^\s()"\[\]]+(?:\[[^\[\]]*\](?:\.[A-Za-z]+)?)?))""", re.DOTALL
)
_SPACE: Final = re.compile(r"\s+")


def parse_filter(text: str, comparable: Comparable) -> Filter:
    """Raises `InvalidFilter`."""
    if len(text) > LONGEST_FILTER:
        raise InvalidFilter(f"filter: at most {LONGEST_FILTER} characters")
    return _Reader(_tokens(text), comparable).read()


def comparisons(one: Filter) -> tuple[FilterComparison, ...]:
    if isinstance(one, FilterComparison):
        return (one,)
    if isinstance(one, Not):
        return comparisons(one.part)
    return tuple(found for part in one.parts for found in comparisons(part))


def pins(one: Filter) -> tuple[FilterComparison, ...] | None:
    """Comparisons with one value each that an index can find. At least one of them is true of everything that the filter finds. None when
    there are no such comparisons: then every resource must be checked.
    """
    match one:
        case FilterComparison(field=FilterField.ID | FilterField.EXTERNAL_ID | FilterField.USER_NAME, operator=Operator.EQUALS):
            return (one,)
        case And():
            found = [pinned for part in one.parts if (pinned := pins(part)) is not None]
            return min(found, key=len) if found else None
        case Or():
            each = [pins(part) for part in one.parts]
            return None if None in each else tuple(pin for pinned in each if pinned is not None for pin in pinned)
        case _:
            return None


def holds(one: Filter, values: Mapping[FilterField, Collection[str | bool]]) -> bool:
    """Whether the filter is true of a resource with these values. Values are compared exactly; the caller folds their case."""
    if isinstance(one, FilterComparison):
        return one.value in values.get(one.field, ())
    if isinstance(one, Not):
        return not holds(one.part, values)
    parts = (holds(part, values) for part in one.parts)
    return all(parts) if isinstance(one, And) else any(parts)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise InvalidFilter(f"filter: cannot be read from character {at + 1} on")
        kind = found.lastgroup or ""
        tokens.append((kind, found[kind]))
        at = found.end()
    return tokens


class _Reader:
    """Parses a filter. `or` binds less than `and`, and `and` less than `not`."""

    def __init__(self, tokens: list[tuple[str, str]], comparable: Comparable) -> None:
        self._tokens = tokens
        self._comparable = comparable
        self._at = 0
        self._depth = 0
        self._comparisons = 0

    def read(self) -> Filter:
        found = self._either()
        if self._at < len(self._tokens):
            raise InvalidFilter(f"filter: nothing may follow before “{self._tokens[self._at][1]}” but `and` and `or`")
        return found

    def _either(self) -> Filter:
        parts = [self._all()]
        while self._takes("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self) -> Filter:
        parts = [self._one()]
        while self._takes("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self) -> Filter:
        kind, text = self._next()
        if kind == "word" and text.lower() == "not":
            if self._next() != ("mark", "("):
                raise InvalidFilter("filter: `not` is followed by parentheses")
            return Not(self._enclosed())
        if (kind, text) == ("mark", "("):
            return self._enclosed()
        if kind != "word":
            raise InvalidFilter("filter: a comparison begins with an attribute")
        return self._comparison(text)

    def _enclosed(self) -> Filter:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidFilter(f"filter: at most {_DEEPEST} parentheses inside each other")
        found = self._either()
        self._depth -= 1
        if self._next() != ("mark", ")"):
            raise InvalidFilter("filter: a parenthesis is not closed")
        return found

    def _comparison(self, attribute: str) -> FilterComparison:
        self._comparisons += 1
        if self._comparisons > MOST_COMPARISONS:
            raise InvalidFilter(f"filter: at most {MOST_COMPARISONS} comparisons")
        field = self._field(attribute)
        allowed = self._comparable.operators[field]
        word = self._next()[1].lower()
        operator = next((one for one in allowed if one.value == word), None)
        if operator is None:
            raise InvalidFilter(f"filter: {field} can be compared by {', '.join(sorted(allowed))}")
        kind, text = self._next()
        return FilterComparison(field, operator, _value(field, kind, text))

    def _field(self, attribute: str) -> FilterField:
        name = _SPACE.sub(" ", attribute.lower()).removeprefix(self._comparable.schema)
        field = self._comparable.fields.get(name)
        if field is None:
            raise InvalidFilter(f"filter: {', '.join(dict.fromkeys(self._comparable.fields.values()))} can be compared")
        return field

    def _takes(self, word: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "word" and self._tokens[self._at][1].lower() == word:
            self._at += 1
            return True
        return False

    def _next(self) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise InvalidFilter("filter: it is not complete")
        self._at += 1
        return self._tokens[self._at - 1]


def _value(field: FilterField, kind: str, text: str) -> str | bool:
    """The value of a comparison: a text in quotes, or a truth value. Some directories write truth values in quotes, and capitalised."""
    if kind == "text":
        try:
            text = json.loads(text, strict=False)
        except ValueError:
            raise InvalidFilter("filter: a text is not written as in JSON") from None
    if field is FilterField.ACTIVE:
        if kind == "mark" or text.lower() not in {"true", "false"}:
            raise InvalidFilter("filter: active is compared with true or false")
        return text.lower() == "true"
    if kind != "text" or "\x00" in text:
        raise InvalidFilter(f"filter: {field} is compared with a text in quotes")
    return text
