"""Subscriptions: a person's plan of a service, and the end of the paid period."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import ApiKeyId, OrganizationId, PlanId, ServiceId, SubscriptionId, UserId
from core.domain.identity.sessions import SubscriptionState
from core.domain.json import Json, timestamp
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.frozen import Frozen, replace

# The period when the caller names none.
PERIOD: Final = timedelta(days=30)
# Every database and client can show every moment of this range in every time zone.
EARLIEST_END: Final = datetime(1970, 1, 2, tzinfo=UTC)
LATEST_END: Final = datetime(9999, 12, 30, tzinfo=UTC)


class SubscriptionStatus(StrEnum):
    """The state of a subscription."""

    ACTIVE = "active"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    PAST_DUE = "past_due"

    @property
    def lives(self) -> bool:
        """A user of a service has at most one subscription with such a status. All others are history."""
        return self in {SubscriptionStatus.ACTIVE, SubscriptionStatus.PAST_DUE}


class Subscription(Frozen, kw_only=True):
    id: SubscriptionId
    service: ServiceId
    user: UserId
    plan: PlanId
    plan_name: str
    status: SubscriptionStatus
    current_period_end: datetime
    created_at: datetime
    updated_at: datetime
    managed: bool = False
    """The payment provider bills the subscription, and the provider alone says when it ends."""

    def settled(self, now: datetime) -> "Subscription":
        """The subscription with the status that counts now. An active subscription whose period has ended is expired, even before the
        database says so. A past-due subscription waits for the payment provider, and so does one that the provider manages.
        """
        return replace(self, status=SubscriptionStatus.EXPIRED) if self.has_lapsed(now) else self

    def has_lapsed(self, now: datetime) -> bool:
        """The subscription has expired, and the database does not say so yet."""
        return self.status is SubscriptionStatus.ACTIVE and not self.managed and self.current_period_end <= now


class OwnSubscription(Frozen):
    """The data that people may know about their own subscription."""

    service_slug: str
    state: SubscriptionState


class Occasion(Frozen):
    """The service of a change, and its actor. By default the change has no actor but the system."""

    organization: OrganizationId
    service_slug: str
    actor: Actor = SYSTEM
    key: ApiKeyId | None = None


class Expired(Frozen):
    """A subscription that has just expired. `occasion` is None when its service is being deleted: then there is no event."""

    subscription: Subscription
    occasion: Occasion | None


def period_end(given: datetime) -> datetime:
    """The moment in UTC. Raises `BadRequest`."""
    # The comparison comes first: a moment outside the range cannot be converted to UTC.
    if not EARLIEST_END <= given <= LATEST_END:
        raise BadRequest(
            f"current_period_end: between {EARLIEST_END:%Y-%m-%d} and {LATEST_END:%Y-%m-%d}",
            words="period_end_bounds",
            values={"earliest": f"{EARLIEST_END:%Y-%m-%d}", "latest": f"{LATEST_END:%Y-%m-%d}"},
        )
    return given.astimezone(UTC)


def subscription_created(subscription: Subscription, occasion: Occasion) -> Event:
    return _event("subscription.created", subscription, occasion)


def subscription_changed(before: Subscription, after: Subscription, occasion: Occasion) -> Event:
    """The event is `subscription.canceled` if that is the new status, otherwise `subscription.updated`. It contains the earlier values."""
    old: Mapping[str, Json] = {"old_status": before.status.value, "old_current_period_end": timestamp(before.current_period_end)}
    cancelled = after.status is SubscriptionStatus.CANCELLED and before.status is not SubscriptionStatus.CANCELLED
    return _event("subscription.canceled" if cancelled else "subscription.updated", after, occasion, old)


def subscription_deleted(subscription: Subscription, occasion: Occasion) -> Event:
    # The audit log has no event of its own for a deletion. For subscribers of events, the subscription is cancelled.
    return _event("subscription.canceled", subscription, occasion, {"deleted": True})


def _event(name: str, subscription: Subscription, occasion: Occasion, more: Mapping[str, Json] = MappingProxyType({})) -> Event:
    details: dict[str, Json] = {
        "service_id": str(subscription.service),
        "service_slug": occasion.service_slug,
        "user_id": str(subscription.user),
        "plan_id": str(subscription.plan),
        "plan_name": subscription.plan_name,
        "status": subscription.status.value,
        "current_period_end": timestamp(subscription.current_period_end),
        **more,
    }
    if occasion.key is not None:
        details["api_key_id"] = str(occasion.key)
    return Event(name, occasion.actor, Target("subscription", str(subscription.id)), occasion.organization, details)
