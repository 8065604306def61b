"""Parses and evaluates SCIM filters (RFC 7644 section 3.4.2.2)."""

import json
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeAlias

from core.domain.federation.scim.protocol import InvalidFilter
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
    EMAIL_TYPE = "emails.type"
    EMAIL_IS_PRIMARY = "emails.primary"
    ACTIVE = "active"
    DISPLAY_NAME = "displayName"
    GIVEN_NAME = "name.givenName"
    FAMILY_NAME = "name.familyName"
    LAST_MODIFIED = "meta.lastModified"
    MEMBER = "members.value"


class Operator(StrEnum):
    EQUALS = "eq"
    CONTAINS = "co"
    STARTS = "sw"
    ENDS = "ew"
    PRESENT = "pr"
    AFTER = "gt"
    SINCE = "ge"
    BEFORE = "lt"
    UNTIL = "le"


FilterValue: TypeAlias = str | bool | datetime


class FilterComparison(Frozen):
    field: FilterField
    operator: Operator
    value: FilterValue
    """True beside an operator that compares with nothing."""


class And(Frozen):
    parts: tuple["Filter", ...]


class Or(Frozen):
    parts: tuple["Filter", ...]


class Not(Frozen):
    part: "Filter"


Filter: TypeAlias = FilterComparison | And | Or | Not

_EQUALS: Final = frozenset({Operator.EQUALS})
_ALWAYS: Final = frozenset({Operator.EQUALS, Operator.PRESENT})
_TEXT: Final = frozenset({Operator.EQUALS, Operator.CONTAINS, Operator.STARTS, Operator.ENDS, Operator.PRESENT})
_TIME: Final = frozenset({Operator.AFTER, Operator.SINCE, Operator.BEFORE, Operator.UNTIL, Operator.PRESENT})
_TRUTHS: Final = frozenset({FilterField.ACTIVE, FilterField.EMAIL_IS_PRIMARY})


class Comparable(Frozen):
    """The attributes of a resource that a filter may name, in lower case, and the operators that each supports."""

    schema: str
    fields: Mapping[str, FilterField]
    operators: Mapping[FilterField, Collection[Operator]]
    parts: Mapping[str, Mapping[str, FilterField]] = {}
    """The parts of an attribute that a filter in brackets may name, by attributes."""


_OF_EMAILS: Final = {"value": FilterField.EMAIL, "type": FilterField.EMAIL_TYPE, "primary": FilterField.EMAIL_IS_PRIMARY}
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
        "emails.type": FilterField.EMAIL_TYPE,
        "emails.primary": FilterField.EMAIL_IS_PRIMARY,
        "displayname": FilterField.DISPLAY_NAME,
        "name.givenname": FilterField.GIVEN_NAME,
        "name.familyname": FilterField.FAMILY_NAME,
        "meta.lastmodified": FilterField.LAST_MODIFIED,
    },
    {
        FilterField.ID: _ALWAYS,
        FilterField.EXTERNAL_ID: _ALWAYS,
        FilterField.USER_NAME: _TEXT,
        FilterField.EMAIL: _TEXT,
        FilterField.EMAIL_TYPE: _EQUALS,
        FilterField.EMAIL_IS_PRIMARY: _EQUALS,
        FilterField.ACTIVE: _ALWAYS,
        FilterField.DISPLAY_NAME: _TEXT,
        FilterField.GIVEN_NAME: _TEXT,
        FilterField.FAMILY_NAME: _TEXT,
        FilterField.LAST_MODIFIED: _TIME,
    },
    {"emails": _OF_EMAILS},
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
    {FilterField.ID: _ALWAYS, FilterField.EXTERNAL_ID: _ALWAYS, FilterField.DISPLAY_NAME: _ALWAYS, FilterField.MEMBER: _EQUALS},
    {"members": {"value": FilterField.MEMBER}},
)

# A token is a text in quotes, a parenthesis, or a word. A word may have a part in brackets, as attributes do.
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<mark>[()])|(?P<word>[^\s()"\[\]]+(?:\[[^\[\]]*\](?:\.[A-Za-z]+)?)?))""", re.DOTALL
)
_SPACE: Final = re.compile(r"\s+")
_IN_BRACKETS: Final = re.compile(r"(?P<attribute>[^\[]+)\[(?P<filter>[^\[\]]*)\]")


def parse_filter(text: str, comparable: Comparable) -> Filter:
    """A filter is parsed into a tree, and refused if it compares an attribute that Postern does not store. No part of a filter is ever
    ignored.

    Raises `InvalidFilter`.
    """
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


def holds(one: Filter, values: Mapping[FilterField, Collection[FilterValue]]) -> bool:
    """Whether the filter is true of a resource with these values. Values are compared exactly; the caller folds their case."""
    if isinstance(one, FilterComparison):
        known = values.get(one.field, ())
        return bool(known) if one.operator is Operator.PRESENT else one.value in known
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

    def __init__(self, tokens: list[tuple[str, str]], comparable: Comparable, comparisons: int = 0) -> None:
        self._tokens = tokens
        self._comparable = comparable
        self._at = 0
        self._depth = 0
        self.comparisons = comparisons

    def read(self) -> Filter:
        found = self._either()
        if self._at < len(self._tokens):
            raise InvalidFilter(f"filter: only `and` or `or` can follow before “{self._tokens[self._at][1]}”")
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
            raise InvalidFilter("filter: a comparison must begin with an attribute")
        found = _IN_BRACKETS.fullmatch(text)
        return self._comparison(text) if found is None else self._in_brackets(found["attribute"], found["filter"])

    def _in_brackets(self, attribute: str, text: str) -> Filter:
        """A filter of the parts of one attribute, such as `emails[type eq "work" and value eq "ada@example.org"]`."""
        name = attribute.lower().removeprefix(self._comparable.schema)
        if name not in self._comparable.parts:
            raise InvalidFilter(f"filter: brackets follow {', '.join(self._comparable.parts)}")
        inner = _Reader(_tokens(text), Comparable("", self._comparable.parts[name], self._comparable.operators), self.comparisons)
        found = inner.read()
        self.comparisons = inner.comparisons
        return found

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
        self.comparisons += 1
        if self.comparisons > MOST_COMPARISONS:
            raise InvalidFilter(f"filter: at most {MOST_COMPARISONS} comparisons")
        field = self._field(attribute)
        allowed = self._comparable.operators[field]
        word = self._next()[1].lower()
        operator = next((one for one in allowed if one.value == word), None)
        if operator is None:
            raise InvalidFilter(f"filter: {field} can be compared by {', '.join(sorted(allowed))}")
        if operator is Operator.PRESENT:
            return FilterComparison(field, operator, True)
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


def _value(field: FilterField, kind: str, text: str) -> FilterValue:
    """The value of a comparison: a text in quotes, or a truth value. Some directories write truth values in quotes, and capitalised."""
    if kind == "text":
        try:
            text = json.loads(text, strict=False)
        except ValueError:
            raise InvalidFilter("filter: a text is not written as in JSON") from None
    if field in _TRUTHS:
        if kind == "mark" or text.lower() not in {"true", "false"}:
            raise InvalidFilter(f"filter: {field} is compared with true or false")
        return text.lower() == "true"
    if kind != "text" or "\x00" in text:
        raise InvalidFilter(f"filter: {field} is compared with a text in quotes")
    return _time(text) if field is FilterField.LAST_MODIFIED else text


def _time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidFilter(f"filter: {FilterField.LAST_MODIFIED} is compared with a time, such as 2026-01-31T12:00:00Z") from None
