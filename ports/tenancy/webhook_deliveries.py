"""Where deliveries are kept, and the queue that they are taken from. The unit of claim is the webhook, which is a destination: however many
deliveries wait for one, they take no place from those for others.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import OrganizationId, WebhookDeliveryId, WebhookId
from core.domain.pages import Listed, Page
from core.domain.tenancy.webhook_deliveries import Delivery, DueDelivery, Outcome, Replayed
from core.frozen import Frozen


class Wanted(Frozen):
    """Which deliveries to list. None: all."""

    event_type: str | None = None
    delivered: bool | None = None


class Claimed(Frozen, kw_only=True):
    """A destination under a lease. `is_failing`: its last attempt failed."""

    webhook: WebhookId
    organization: OrganizationId
    url: str
    sealed_secret: bytes
    previous_sealed_secret: bytes | None
    is_failing: bool
    lease: UUID


class WebhookDeliveryStore(Protocol):
    """Part of the unit of work. The webhook is held first."""

    async def newest_test(self, webhook: WebhookId) -> Delivery:
        """After its event was recorded in this unit of work."""

    async def redeliver(self, webhook: WebhookId, delivery: WebhookDeliveryId) -> Delivery | None:
        """Due now, with all its attempts before it. None when the webhook has no such delivery."""

    async def replay(self, webhook: WebhookId, since: datetime, until: datetime, event_type: str | None, limit: int) -> Replayed:
        """Events of its organization that it subscribes to, in this span, oldest first."""

    async def ring(self) -> None:
        """Tells the dispatchers, once the unit of work is committed."""


class WebhookDeliveryLookup(Protocol):
    """Outside any unit of work, one statement."""

    async def list(self, organization: OrganizationId, webhook: WebhookId, wanted: Wanted, page: Page) -> Listed[Delivery] | None:
        """Newest event first. The total is counted up to `MOST_COUNTED`. None when the organization has no such webhook."""


class WebhookQueue(Protocol):
    """Each call is one statement. What a process had claimed when it died is free again when its lease has run out."""

    async def claim(self, limit: int, lease: timedelta, *, failing: bool, busy: Sequence[OrganizationId] = ()) -> Sequence[Claimed]:
        """Up to `limit` destinations with something due, of those whose last attempt failed or of all others. Of one organization, as
        many fewer as half of how often it is among the `busy`.
        """

    async def due(self, claimed: Claimed, limit: int) -> Sequence[DueDelivery]:
        """Longest due first. None of them when the lease is lost, or the destination is no longer to be called."""

    async def settle(self, claimed: Claimed, outcomes: Sequence[Outcome]) -> datetime | None:
        """Returns since when the destination has only failed; None when it has not, or the lease was lost."""

    async def release(self, claimed: Claimed, rest: timedelta | None = None) -> None:
        """Gives the lease back. After `rest` it can be claimed again; after None at once."""
