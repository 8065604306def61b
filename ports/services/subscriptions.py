"""The store of subscriptions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.pages import Listed
from core.domain.services.subscriptions import Expired, OwnSubscription, Subscription, SubscriptionStatus
from core.frozen import Frozen


class Subscriber(Frozen):
    """A user of a service, whose subscriptions to it stay as they are until the unit of work ends. `current` is as it was last written
    down.
    """

    current: Subscription | None


class SubscriptionStore(Protocol):
    """Outside a unit of work, `list`, `current` and `own` are one statement and one round trip each. The other methods need a unit of
    work.
    """

    async def list(self, service: ServiceId, status: SubscriptionStatus | None, limit: int, offset: int) -> Listed[Subscription]:
        """All subscriptions, oldest first, with their exact number. `status` filters by the status that was last written down."""

    async def current(self, service: ServiceId, user: UserId) -> Subscription | None:
        """None when the user has no current subscription."""

    async def own(self, organization: OrganizationId, service_slug: str, user: UserId) -> OwnSubscription | None:
        """The subscription as this user's tokens for the service tell it. None when the service or the user is gone."""

    async def hold(self, service: ServiceId, user: UserId) -> Subscriber | None:
        """One change to a user's subscriptions at a time. None when the person is not a user of the service."""

    async def add(self, subscription: Subscription) -> bool:
        """False when the user has an active or past-due subscription already: of two callers, one gets False."""

    async def save(self, subscription: Subscription, *, overridden_at: datetime | None = None) -> None:
        """Saves plan, status and end of the period. `overridden_at` is the time at which somebody other than the payment provider changed a
        subscription that the provider manages. After `hold`.
        """

    async def delete_all(self, service: ServiceId, user: UserId) -> None:
        """Deletes all subscriptions of the user, current and earlier. After `hold`."""

    async def expire_due(self, since: datetime | None, most: int) -> Sequence[Expired]:
        """Records that the periods of active subscriptions have ended, earliest end first, from `since` on. Subscriptions that another
        transaction holds are left for the next time.
        """
