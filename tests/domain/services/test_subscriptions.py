"""Subscriptions: their expiry, the longest period, and their events."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import ApiKeyId, OrganizationId, PlanId, ServiceId, SubscriptionId, UserId
from core.domain.record.events import SYSTEM, Actor
from core.domain.services.plans import (
    EARLIEST_END,
    LATEST_END,
    Occasion,
    Subscription,
    SubscriptionStatus,
    period_end,
    subscription_changed,
    subscription_created,
    subscription_deleted,
)
from core.frozen import replace

NOW = datetime(2026, 11, 20, tzinfo=UTC)
SUBSCRIPTION = Subscription(
    id=SubscriptionId(UUID(int=1)),
    service=ServiceId(UUID(int=2)),
    user=UserId(UUID(int=3)),
    plan=PlanId(UUID(int=4)),
    plan_name="Pro",
    status=SubscriptionStatus.ACTIVE,
    current_period_end=NOW,
    created_at=NOW - timedelta(days=30),
    updated_at=NOW - timedelta(days=30),
)
BY_KEY = Occasion(OrganizationId(UUID(int=5)), "shop", Actor(address="192.0.2.7"), ApiKeyId(UUID(int=6)))
DETAILS = {
    "service_id": str(UUID(int=2)),
    "service_slug": "shop",
    "user_id": str(UUID(int=3)),
    "plan_id": str(UUID(int=4)),
    "plan_name": "Pro",
    "status": "active",
    "current_period_end": "2026-11-20T00:00:00Z",
    "api_key_id": str(UUID(int=6)),
}


def test_active_and_past_due_live_and_the_others_are_over() -> None:
    assert [status for status in SubscriptionStatus if status.lives] == [SubscriptionStatus.ACTIVE, SubscriptionStatus.PAST_DUE]


def test_an_active_one_expires_at_the_very_end_of_its_period() -> None:
    moment = timedelta(microseconds=1)
    assert SUBSCRIPTION.settled(NOW - moment) == SUBSCRIPTION
    assert SUBSCRIPTION.settled(NOW) == replace(SUBSCRIPTION, status=SubscriptionStatus.EXPIRED)
    assert SUBSCRIPTION.settled(NOW + moment).status is SubscriptionStatus.EXPIRED


@pytest.mark.parametrize("status", [SubscriptionStatus.PAST_DUE, SubscriptionStatus.CANCELLED, SubscriptionStatus.EXPIRED])
def test_the_others_wait_for_a_word(status: SubscriptionStatus) -> None:
    other = replace(SUBSCRIPTION, status=status)
    assert other.settled(NOW + timedelta(days=1000)) == other


def test_an_end_is_brought_into_utc() -> None:
    given = datetime(2031, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert period_end(given).isoformat() == "2031-05-01T10:00:00+00:00"
    assert (period_end(EARLIEST_END), period_end(LATEST_END)) == (EARLIEST_END, LATEST_END)


@pytest.mark.parametrize(
    "given",
    [
        EARLIEST_END - timedelta(microseconds=1),
        LATEST_END + timedelta(microseconds=1),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-12))),
    ],
)
def test_an_end_beyond_the_calendar_is_refused(given: datetime) -> None:
    with pytest.raises(BadRequest, match="current_period_end: between 1970-01-02 and 9999-12-30"):
        period_end(given)


def test_a_new_one_is_told_with_the_key_that_made_it() -> None:
    event = subscription_created(SUBSCRIPTION, BY_KEY)
    assert (event.name, event.actor, event.organization) == ("subscription.created", BY_KEY.actor, BY_KEY.organization)
    assert (event.target.type, event.target.id) == ("subscription", str(SUBSCRIPTION.id))
    assert event.details == DETAILS
    assert event.published
    assert event.audited


def test_a_change_is_told_with_what_was_before() -> None:
    after = replace(SUBSCRIPTION, status=SubscriptionStatus.PAST_DUE, current_period_end=NOW + timedelta(days=1))
    event = subscription_changed(SUBSCRIPTION, after, BY_KEY)
    assert event.name == "subscription.updated"
    assert event.details == {
        **DETAILS,
        "status": "past_due",
        "current_period_end": "2026-11-21T00:00:00Z",
        "old_status": "active",
        "old_current_period_end": "2026-11-20T00:00:00Z",
    }


def test_cancelling_is_told_once() -> None:
    cancelled = replace(SUBSCRIPTION, status=SubscriptionStatus.CANCELLED)
    assert subscription_changed(SUBSCRIPTION, cancelled, BY_KEY).name == "subscription.canceled"
    later = replace(cancelled, current_period_end=NOW + timedelta(days=1))
    assert subscription_changed(cancelled, later, BY_KEY).name == "subscription.updated"


def test_one_that_is_deleted_is_told_as_such() -> None:
    event = subscription_deleted(SUBSCRIPTION, BY_KEY)
    assert (event.name, event.details) == ("subscription.canceled", {**DETAILS, "deleted": True})


def test_what_happens_by_itself_names_no_key() -> None:
    event = subscription_changed(SUBSCRIPTION, SUBSCRIPTION.settled(NOW), Occasion(BY_KEY.organization, "shop"))
    assert event.actor == SYSTEM
    assert "api_key_id" not in event.details
