"""Subscriptions: which plan of a service somebody is on, and until when that is paid for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from core.domain.errors import BadRequest
from core.domain.events import SYSTEM, Actor, Event, Target
from core.domain.identifiers import ApiKeyId, OrganizationId, PlanId, ServiceId, SubscriptionId, UserId
from core.domain.json import Json
from core.domain.sessions import SubscriptionState

# When nothing is said.
PERIOD: Final = timedelta(days=30)
# Whatever lies between is a moment in every time zone that a database or a client may show it in.
EARLIEST_END: Final = datetime(1970, 1, 2, tzinfo=UTC)
LATEST_END: Final = datetime(9999, 12, 30, tzinfo=UTC)


class SubscriptionStatus(StrEnum):
    ACTIVE = "active"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    PAST_DUE = "past_due"

    @property
    def lives(self) -> bool:
        """Of those there is one at most for each user of a service; the others are its history."""
        return self in {SubscriptionStatus.ACTIVE, SubscriptionStatus.PAST_DUE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    id: SubscriptionId
    service: ServiceId
    user: UserId
    plan: PlanId
    plan_name: str
    status: SubscriptionStatus
    current_period_end: datetime
    created_at: datetime
    updated_at: datetime

    def settled(self, now: datetime) -> "Subscription":
        """As it counts at this moment: an active one whose period has ended is expired, whether or not anybody has written that down. One
        that is past due waits for the payment provider's word.
        """
        return replace(self, status=SubscriptionStatus.EXPIRED) if self.has_lapsed(now) else self

    def has_lapsed(self, now: datetime) -> bool:
        """Nobody has written down yet that it has expired."""
        return self.status is SubscriptionStatus.ACTIVE and self.current_period_end <= now


@dataclass(frozen=True, slots=True)
class OwnSubscription:
    """What a user of a service may know of their own subscription to it."""

    service_slug: str
    state: SubscriptionState


@dataclass(frozen=True, slots=True)
class Occasion:
    """In which service something happens to a subscription, and by whom: by default, by itself."""

    organization: OrganizationId
    service_slug: str
    actor: Actor = SYSTEM
    key: ApiKeyId | None = None


@dataclass(frozen=True, slots=True)
class Expired:
    """A subscription that has just expired. Without an occasion: its service is being deleted, and nobody is there to be told."""

    subscription: Subscription
    occasion: Occasion | None


def period_end(given: datetime) -> datetime:
    """In UTC. Raises `BadRequest`."""
    # The comparison first: what lies outside cannot be brought into UTC without leaving the calendar.
    if not EARLIEST_END <= given <= LATEST_END:
        raise BadRequest(f"current_period_end: between {EARLIEST_END:%Y-%m-%d} and {LATEST_END:%Y-%m-%d}")
    return given.astimezone(UTC)


def subscription_created(subscription: Subscription, occasion: Occasion) -> Event:
    return _event("subscription.created", subscription, occasion)


def subscription_changed(before: Subscription, after: Subscription, occasion: Occasion) -> Event:
    """Cancelled when that is what became of it, otherwise updated. Says from what."""
    old: Mapping[str, Json] = {"old_status": before.status.value, "old_current_period_end": before.current_period_end.isoformat()}
    cancelled = after.status is SubscriptionStatus.CANCELLED and before.status is not SubscriptionStatus.CANCELLED
    return _event("subscription.canceled" if cancelled else "subscription.updated", after, occasion, old)


def subscription_deleted(subscription: Subscription, occasion: Occasion) -> Event:
    # The audit log has no word of its own for it: for whoever listens, it has ended.
    return _event("subscription.canceled", subscription, occasion, {"deleted": True})


def _event(name: str, subscription: Subscription, occasion: Occasion, more: Mapping[str, Json] = MappingProxyType({})) -> Event:
    details: dict[str, Json] = {
        "service_id": str(subscription.service),
        "service_slug": occasion.service_slug,
        "user_id": str(subscription.user),
        "plan_id": str(subscription.plan),
        "plan_name": subscription.plan_name,
        "status": subscription.status.value,
        "current_period_end": subscription.current_period_end.isoformat(),
        **more,
    }
    if occasion.key is not None:
        details["api_key_id"] = str(occasion.key)
    return Event(name, occasion.actor, Target("subscription", str(subscription.id)), occasion.organization, details)
