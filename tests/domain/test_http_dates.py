"""Dates of HTTP: three forms are read, and every other text is refused."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.formats import http_date
from core.domain.record.deliveries import LONGEST_REST, rest_asked

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENT = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", MOMENT),
        ("Sunday, 06-Nov-94 08:49:37 GMT", MOMENT),
        ("Sun Nov  6 08:49:37 1994", MOMENT),
        ("Sun Nov 16 08:49:37 1994", MOMENT + timedelta(days=10)),
        # A year of two digits is in this century, unless that would be more than 50 years from now.
        ("Sunday, 06-Nov-76 08:49:37 GMT", MOMENT.replace(year=2076)),
        ("Sunday, 06-Nov-77 08:49:37 GMT", MOMENT.replace(year=1977)),
        ("Thu, 31 Dec 2026 23:59:60 GMT", datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_all_forms_are_read(text: str, at: datetime) -> None:
    assert http_date(text, NOW) == at


HOSTILE = [
    "",
    "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
    "Mon, 01 Jan 2026 00:00:00 -9999999999999",
    "Mon, 01 Jan 2026 00:00:00 +0000",
    "Mon, 01 Jan 0000 00:00:00 GMT",
    "Mon, 01 Jan 0001 00:00:00 +2359",
    "Mon, 32 Jan 2026 00:00:00 GMT",
    "Mon, 30 Feb 2026 00:00:00 GMT",
    "Mon, 01 Jan 2026 24:00:00 GMT",
    "Mon, 01 Jan 2026 00:00:61 GMT",
    "mon, 01 jan 2026 00:00:00 gmt",
    "Mon,\n01 Jan 2026 00:00:00 GMT",
    "Mon, \u0660\u0661 Jan 2026 00:00:00 GMT",
    "Mon, 01 Jan 2026 00:00:00 \ud800",
    "01 Jan 26 1:2",
    "9" * 100_000,
    "Mon, " * 20_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_anything_else_is_none(text: str) -> None:
    assert http_date(text, NOW) is None
    assert rest_asked(text, NOW) is None


_PIECES = st.sampled_from(
    [
        "Mon, ",
        "Monday, ",
        "Mon ",
        "01 ",
        "01-",
        "Jan ",
        "Jan-",
        "26 ",
        "2026 ",
        "00:00:00 ",
        "GMT",
        "-0000",
        "+9999999999999",
        "9" * 30,
        "\x00",
    ]
)


@given(st.lists(_PIECES | st.text(max_size=3), max_size=8).map("".join))
def test_whatever_a_receiver_asks_for_is_nothing_or_a_while(text: str) -> None:
    rest = rest_asked(text, NOW)
    assert rest is None or timedelta(0) <= rest <= LONGEST_REST
