"""Where deliveries to webhooks are kept."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, WebhookDeliveryId, WebhookId
from core.domain.pages import Listed, Page
from core.domain.tenancy.webhook_deliveries import Delivery, Replayed
from core.frozen import Frozen
from ports.record.deliveries import ClaimedReceiver


class WantedDeliveries(Frozen):
    """Which deliveries to list. None: all."""

    event_type: str | None = None
    delivered: bool | None = None


class ClaimedWebhook(ClaimedReceiver, kw_only=True):
    sealed_secret: bytes
    previous_sealed_secret: bytes | None


class WebhookDeliveryStore(Protocol):
    """Outside a unit of work, `list` is two statements. The other methods need a unit of work, in which the webhook is held first. Only
    PostgreSQL implements it.
    """

    async def list(self, organization: OrganizationId, webhook: WebhookId, wanted: WantedDeliveries, page: Page) -> Listed[Delivery] | None:
        """Newest event first. The total is counted up to `MOST_COUNTED`. None when the organization has no such webhook."""

    async def newest_test(self, webhook: WebhookId) -> Delivery:
        """After its event was recorded in this unit of work."""

    async def redeliver(self, webhook: WebhookId, delivery: WebhookDeliveryId) -> Delivery | None:
        """Due now, with all its attempts before it. None when the webhook has no such delivery."""

    async def replay(self, webhook: WebhookId, since: datetime, until: datetime, event_type: str | None, limit: int) -> Replayed:
        """Events of its organization that it subscribes to, in this span, oldest first."""

    async def ring(self) -> None:
        """Tells the dispatchers, once the unit of work is committed."""
