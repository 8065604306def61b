"""The queue of deliveries to webhooks."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from adapters.postgres.record.deliveries import DeliveryTables
from adapters.postgres.tenancy.webhook_deliveries import HAPPENED, WITH_EVENT, HappenedRow
from core.domain.identifiers import OrganizationId
from core.domain.tenancy.webhooks import DueEvent
from core.frozen import Frozen
from ports.tenancy.receivers import ClaimedWebhook


class _Claim(Frozen):
    """One claimed webhook. When nothing was claimed, there is one row, and its `id` is null."""

    last: UUID | None
    id: UUID | None
    lease: UUID
    org_id: UUID
    url: str
    sealed_secret: bytes
    previous_sealed_secret: bytes | None

    def claimed(self, *, failing: bool) -> ClaimedWebhook | None:
        if self.id is None:
            return None
        return ClaimedWebhook(
            id=self.id,
            organization=OrganizationId(self.org_id),
            url=self.url,
            is_failing=failing,
            lease=self.lease,
            sealed_secret=self.sealed_secret,
            previous_sealed_secret=self.previous_sealed_secret,
        )


class _Due(HappenedRow):
    id: UUID
    attempts: int
    request_id: UUID | None
    waited: timedelta

    def due(self) -> DueEvent:
        return DueEvent(self.happened(), self.waited, id=self.id, attempts=self.attempts, request=self.request_id)


WEBHOOKS: Final[DeliveryTables[ClaimedWebhook, DueEvent]] = DeliveryTables(
    waiting="webhook_deliveries",
    of="webhook_id",
    receivers="webhooks",
    key="id",
    joins="join organizations on organizations.id = webhooks.org_id",
    may_be_called="webhooks.is_active and organizations.status = 'active'",
    row=_Claim,
    columns="""claimed.id, claimed.org_id, claimed.url, claimed.sealed_secret,
         case when claimed.previous_until > now() then claimed.previous_sealed_secret end as previous_sealed_secret""",
    due_row=_Due,
    due_columns=f"deliveries.request_id, now() - deliveries.next_at as waited, {HAPPENED}",
    due_joins=WITH_EVENT,
    due_order="deliveries.event_id",
    kept="response_body = outcomes.response_body,",
)

# The janitor gives up deliveries that wait for a disabled webhook, or for a webhook of an organization that is not active. The recursion
# reads each webhook's id once from an index, however many deliveries wait for the webhook.
FORSAKE: Final = """
    with recursive
         pending (webhook_id) as (
             (select webhook_id from webhook_deliveries where next_at is not null order by webhook_id limit 1)
              union all
             select (select webhook_id
                       from webhook_deliveries
                      where next_at is not null and webhook_deliveries.webhook_id > pending.webhook_id
                      order by webhook_id
                      limit 1)
               from pending
              where pending.webhook_id is not null
         ),
         forsaken as (
             select deliveries.id
               from pending
               join webhooks on webhooks.id = pending.webhook_id
               left join organizations on organizations.id = webhooks.org_id
              cross join lateral (
                        select id from webhook_deliveries where webhook_id = webhooks.id and next_at is not null limit %(limit)s
                    ) as deliveries
              where not webhooks.is_active or organizations.status is distinct from 'active'
              limit %(limit)s
         )
  update webhook_deliveries
     set next_at = null, error = 'the webhook was disabled, or its organization suspended', updated_at = now()
   where id in (select id from forsaken)
"""
