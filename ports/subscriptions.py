"""Where subscriptions are kept. A user's current one is the one that lives, or else the youngest."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.pages import Listed
from core.domain.subscriptions import Expired, OwnSubscription, Subscription, SubscriptionStatus


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A user of a service whose subscriptions to it stay as they are until the unit of work ends. `current` is as it was written down."""

    current: Subscription | None


class SubscriptionStore(Protocol):
    """Part of the unit of work."""

    async def hold(self, service: ServiceId, user: UserId) -> Subscriber | None:
        """One change to the subscriptions of a user at a time. None when they are no user of the service."""

    async def add(self, subscription: Subscription) -> bool:
        """False when it would be the second that lives: of two callers, one gets False."""

    async def save(self, subscription: Subscription) -> None:
        """Plan, status and end of the period, as they are now. After `hold`."""

    async def delete_all(self, service: ServiceId, user: UserId) -> None:
        """The current one and those of before. After `hold`."""

    async def expire_due(self, since: datetime | None, most: int) -> Sequence[Expired]:
        """Write down that the periods of active ones have ended, those first that ended first, from `since` on; passes over those that
        somebody holds at the moment.
        """


class SubscriptionLookup(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def list(self, service: ServiceId, status: SubscriptionStatus | None, limit: int, offset: int) -> Listed[Subscription]:
        """All there were, the oldest first, with their exact number; by the status that was written down last."""

    async def current(self, service: ServiceId, user: UserId) -> Subscription | None:
        """None when there is none."""

    async def own(self, organization: OrganizationId, service_slug: str, user: UserId) -> OwnSubscription | None:
        """What this user's tokens of the service say. None when the service or the user is gone."""
