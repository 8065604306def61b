"""Filters: valid and refused ones. The values that a filter pins down find all rows that the filter finds."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.federation.scim.filters import (
    LONGEST_FILTER,
    MOST_COMPARISONS,
    OF_GROUPS,
    OF_USERS,
    And,
    Filter,
    FilterComparison,
    FilterField,
    Not,
    Operator,
    Or,
    comparisons,
    holds,
    parse_filter,
    pins,
)
from core.domain.federation.scim.protocol import InvalidFilter

ADA = FilterComparison(FilterField.USER_NAME, Operator.EQUALS, "ada@example.org")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
PRIMARY = FilterComparison(FilterField.EMAIL_IS_PRIMARY, Operator.EQUALS, True)
ACTIVE = FilterComparison(FilterField.ACTIVE, Operator.EQUALS, value=True)
X = FilterComparison(FilterField.EXTERNAL_ID, Operator.EQUALS, "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('userName eq "ada@example.org"', ADA),
        ('USERNAME EQ "ada@example.org"', ADA),
        ('  urn:ietf:params:scim:schemas:core:2.0:User:userName   eq   "ada@example.org"  ', ADA),
        ("active eq true", ACTIVE),
        ('active eq "True"', ACTIVE),
        ("active eq False", FilterComparison(FilterField.ACTIVE, Operator.EQUALS, value=False)),
        ('emails.value co "@example"', FilterComparison(FilterField.EMAIL, Operator.CONTAINS, "@example")),
        ('emails[type eq "work"].value sw "a"', FilterComparison(FilterField.EMAIL, Operator.STARTS, "a")),
        ('userName ew "\\u0061\\"b\\\\"', FilterComparison(FilterField.USER_NAME, Operator.ENDS, 'a"b\\')),
        ('userName eq "ada@example.org" and active eq true or externalId eq "x"', Or((And((ADA, ACTIVE)), X))),
        ('userName eq "ada@example.org" and (active eq true or externalId eq "x")', And((ADA, Or((ACTIVE, X))))),
        ("not (active eq true) and active eq true", And((Not(ACTIVE), ACTIVE))),
        ('((externalId eq "x"))', X),
        ("displayName pr", FilterComparison(FilterField.DISPLAY_NAME, Operator.PRESENT, True)),
        (
            'emails[type eq "work" and value eq "a@example.org"]',
            And(
                (
                    FilterComparison(FilterField.EMAIL_TYPE, Operator.EQUALS, "work"),
                    FilterComparison(FilterField.EMAIL, Operator.EQUALS, "a@example.org"),
                )
            ),
        ),
        ("urn:ietf:params:scim:schemas:core:2.0:User:emails[primary eq true]", PRIMARY),
        ('Emails.Primary eq "True"', PRIMARY),
        *(
            (
                f'meta.lastModified {word} "{text}"',
                FilterComparison(FilterField.LAST_MODIFIED, operator, NOON),
            )
            for word, operator, text in (
                ("gt", Operator.AFTER, "2026-01-31T12:00:00Z"),
                ("ge", Operator.SINCE, "2026-01-31T13:00:00+01:00"),
                ("lt", Operator.BEFORE, "2026-01-31T12:00:00.000Z"),
                ("le", Operator.UNTIL, "2026-01-31T12:00:00"),
            )
        ),
    ],
)
def test_a_filter_is_read(text: str, expected: Filter) -> None:
    assert parse_filter(text, OF_USERS) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "userName", "userName eq", 'userName eq "a" and', 'userName eq "a" b', '(userName eq "a"', 'userName eq "a")'),
        *("userName eq ada", "userName eq 'ada'", "userName pr eq", 'userName gt "a"', 'externalId co "a"', 'id sw "a"', 'title eq "x"'),
        *(
            'active eq "yes"',
            "active eq (",
            "not active eq true",
            'not userName eq "a"',
            '"a" eq userName',
            '( eq "a")',
            'userName eq "\\x"',
        ),
        *(
            'userName eq "a',
            'emails[type eq "home"].value eq "a"',
            'userName eq "a\\u0000"',
            "active eq null",
            "(active eq true active",
            '[a] eq "b"',
        ),
        *(
            'emails[type eq "work"',
            "emails[]",
            'emails[display eq "a"]',
            'emails[value eq "a"] eq "b"',
            'name[givenName eq "a"]',
            'emails[type sw "w"]',
            'meta.lastModified eq "2026-01-01T00:00:00Z"',
            'meta.lastModified gt "yesterday"',
            'meta.lastModified gt "0001-01-01T00:00:00+23:59"',
            "meta.lastModified gt true",
            'emails.primary eq "perhaps"',
        ),
        "emails[" + " or ".join(["primary eq true"] * (MOST_COMPARISONS + 1)) + "]",
        "(" * 21 + "active eq true" + ")" * 21,
        " or ".join(["active eq true"] * (MOST_COMPARISONS + 1)),
        'userName eq "' + "a" * LONGEST_FILTER + '"',
    ],
)
def test_whatever_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilter):
        parse_filter(text, OF_USERS)


def test_groups_have_attributes_of_their_own() -> None:
    assert parse_filter('displayName eq "Acme" and members eq "7"', OF_GROUPS) == And(
        (FilterComparison(FilterField.DISPLAY_NAME, Operator.EQUALS, "Acme"), FilterComparison(FilterField.MEMBER, Operator.EQUALS, "7"))
    )
    with pytest.raises(InvalidFilter):
        parse_filter('displayName co "A"', OF_GROUPS)


NAMES = ["a", "b", "c"]
COMPARED = st.one_of(
    st.builds(
        FilterComparison,
        st.sampled_from([FilterField.ID, FilterField.EXTERNAL_ID, FilterField.USER_NAME]),
        st.just(Operator.EQUALS),
        st.sampled_from(NAMES),
    ),
    st.builds(FilterComparison, st.just(FilterField.ACTIVE), st.just(Operator.EQUALS), st.booleans()),
)
FILTERS: st.SearchStrategy[Any] = st.recursive(
    COMPARED,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts))),
        inner.map(Not),
    ),
    max_leaves=8,
)


def written(one: Filter) -> str:
    match one:
        case And():
            return f"({' and '.join(map(written, one.parts))})"
        case Or():
            return f"({' or '.join(map(written, one.parts))})"
        case Not():
            return f"not ({written(one.part)})"
        case FilterComparison():
            return f"{one.field} eq {str(one.value).lower() if isinstance(one.value, bool) else f'{chr(34)}{one.value}{chr(34)}'}"


@given(FILTERS)
def test_what_is_written_is_read_back(one: Filter) -> None:
    assert parse_filter(written(one), OF_USERS) == one


VALUES = st.fixed_dictionaries(
    {
        FilterField.ID: st.sampled_from(NAMES).map(lambda name: {name}),
        FilterField.EXTERNAL_ID: st.sampled_from(NAMES).map(lambda name: {name}),
        FilterField.USER_NAME: st.sampled_from(NAMES).map(lambda name: {name}),
        FilterField.ACTIVE: st.booleans().map(lambda value: {value}),
    }
)


@given(FILTERS, VALUES)
def test_whatever_a_filter_finds_one_of_its_pins_finds(one: Filter, values: Mapping[FilterField, set[str | bool]]) -> None:
    pinned = pins(one)
    assert set(pinned or ()) <= set(comparisons(one))
    if pinned is not None and holds(one, values):
        assert any(holds(pin, values) for pin in pinned)


def test_only_what_an_index_knows_is_a_pin() -> None:
    assert pins(And((ACTIVE, ADA))) == (ADA,)
    assert pins(Or((X, And((ACTIVE, ADA))))) == (X, ADA)
    assert pins(Or((X, ACTIVE))) is pins(Not(ADA)) is pins(ACTIVE) is None
    assert pins(FilterComparison(FilterField.USER_NAME, Operator.CONTAINS, "a")) is None
    assert pins(And((ACTIVE, ACTIVE))) is None


@given(st.text(alphabet='abAN()" eq\\[].{}:truefalsndo', max_size=60) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_filter(text, OF_USERS)
    except InvalidFilter:
        return
