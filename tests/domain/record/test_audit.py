"""The audit log: the client's data that it keeps, and the values that its filters accept."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import UserId
from core.domain.record.audit import LONGEST_USER_AGENT, AuditFilter, kept_user_agent, require_reachable
from core.domain.record.events import Actor, TargetType
from core.domain.requests import MOST_ROWS_COUNTED, Page

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def test_a_user_agent_is_kept_up_to_a_length() -> None:
    assert kept_user_agent(Actor()) is None
    assert kept_user_agent(Actor(user_agent="Mozilla")) == "Mozilla"
    assert kept_user_agent(Actor(user_agent="x" * 100_000)) == "x" * LONGEST_USER_AGENT


def test_a_filter_that_says_nothing_is_empty() -> None:
    assert AuditFilter().is_empty
    for one in (
        AuditFilter(action="user.invited"),
        AuditFilter(target_type=TargetType.USER),
        AuditFilter(target_type=TargetType.USER, target_id="7"),
        AuditFilter(actor=UserId(UUID(int=7))),
        AuditFilter(success=False),
        AuditFilter(success=True),
        AuditFilter(since=NOON),
        AuditFilter(until=NOON),
    ):
        assert not one.is_empty


def test_a_target_is_named_with_its_type() -> None:
    with pytest.raises(BadRequest, match="target_type"):
        AuditFilter(target_id="7")


def test_a_span_of_time_ends_after_it_begins() -> None:
    AuditFilter(since=NOON, until=NOON + timedelta(microseconds=1))
    for until in (NOON, NOON - timedelta(days=1)):
        with pytest.raises(BadRequest, match="until"):
            AuditFilter(since=NOON, until=until)


def test_a_filtered_list_is_read_as_far_as_is_counted() -> None:
    require_reachable(Page(MOST_ROWS_COUNTED // 100, 100))
    require_reachable(Page(MOST_ROWS_COUNTED, 1))
    for page in (Page(MOST_ROWS_COUNTED // 100 + 1, 100), Page(MOST_ROWS_COUNTED + 1, 1), Page(10_000_000, 100)):
        with pytest.raises(BadRequest, match="since and until"):
            require_reachable(page)
