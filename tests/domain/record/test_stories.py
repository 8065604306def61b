from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.causes import given_tail, moment_of, named_by_client
from core.domain.errors import BadRequest
from core.domain.record.stories import sought_story

OURS = UUID("01a208d3-bcf3-7144-888e-03bf528da5d6")
NOW = datetime(2030, 1, 1, tzinfo=UTC)
MOMENT = moment_of(OURS) or NOW
HOUR = timedelta(hours=1)


def test_an_id_of_ours_says_where_to_look() -> None:
    sought = sought_story(str(OURS), None, None, NOW)
    assert (sought.request, sought.tail) == (OURS, given_tail(str(OURS)))
    assert (sought.since, sought.until) == (MOMENT - timedelta(minutes=5), MOMENT + HOUR)
    assert sought_story(named_by_client(OURS, "trace-7"), None, None, NOW).since == sought.since


def test_a_time_that_is_named_comes_first() -> None:
    assert sought_story(str(OURS), None, MOMENT + 3 * HOUR, NOW).until == MOMENT + 3 * HOUR
    since_then = sought_story(str(OURS), MOMENT, None, NOW)
    assert (since_then.since, since_then.until) == (MOMENT, NOW + timedelta(minutes=5))


@pytest.mark.parametrize("text", ["trace-7", "3f2504e04f8941d39a0c0305e82c3301", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", OURS.hex])
def test_the_text_of_a_client_needs_a_time(text: str) -> None:
    with pytest.raises(BadRequest, match="--since"):
        sought_story(text, None, None, NOW)
    sought = sought_story(text, NOW - HOUR, None, NOW)
    assert (sought.tail, sought.since, sought.until) == (given_tail(text), NOW - HOUR, NOW + timedelta(minutes=5))


@pytest.mark.parametrize("text", ["", "a" * 129, "a b", "a'b", "é", "a\n", "../x/"])
def test_what_no_request_has_as_its_id_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="up to 128"):
        sought_story(text, NOW - HOUR, None, NOW)


def test_a_time_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(BadRequest, match="ends before"):
        sought_story("trace-7", NOW, NOW - HOUR, NOW)
