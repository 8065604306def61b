"""The store of deliveries to webhooks."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, WebhookDeliveryId, WebhookId
from core.domain.pages import Listed, Page
from core.domain.tenancy.webhook_deliveries import Delivery, Replayed
from core.frozen import Frozen
from ports.record.deliveries import ClaimedReceiver


class WantedDeliveries(Frozen):
    """The deliveries to list. None means all."""

    event_type: str | None = None
    delivered: bool | None = None


class ClaimedWebhook(ClaimedReceiver, kw_only=True):
    sealed_secret: bytes
    previous_sealed_secret: bytes | None


class WebhookDeliveryStore(Protocol):
    """Outside a unit of work, `list` is two statements. The other methods need a unit of work in which the caller has already
    locked the webhook. Only PostgreSQL implements `WebhookDeliveryStore`.
    """

    async def list(self, organization: OrganizationId, webhook: WebhookId, wanted: WantedDeliveries, page: Page) -> Listed[Delivery] | None:
        """Newest event first. The total is counted up to `MOST_COUNTED`. None when the organization has no such webhook."""

    async def newest_test(self, webhook: WebhookId) -> Delivery:
        """Called after the test event was recorded in this unit of work."""

    async def redeliver(self, webhook: WebhookId, delivery: WebhookDeliveryId) -> Delivery | None:
        """The delivery is due now, with all its attempts before it. None when the webhook has no such delivery."""

    async def replay(self, webhook: WebhookId, since: datetime, until: datetime, event_type: str | None, limit: int) -> Replayed:
        """Delivers again the events of the organization that the webhook subscribes to, in this span of time, oldest first."""

    async def ring(self) -> None:
        """Wakes the dispatchers once the unit of work is committed."""
