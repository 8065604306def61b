"""The queue of deliveries in PostgreSQL. A claim takes destinations; what is due for each is looked up once the claim is committed, since a
statement sees the deliveries as they were before it waited for nobody.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.destinations import Queue, Rounds, claiming, finding, releasing, settling, told
from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask, tell
from adapters.postgres.tenancy.webhook_deliveries import HAPPENED, WITH_EVENT, HappenedRow
from core.domain.identifiers import OrganizationId, WebhookDeliveryId, WebhookId
from core.domain.tenancy.webhook_deliveries import DueDelivery, Outcome
from core.frozen import Frozen
from ports.tenancy.webhook_deliveries import Claimed


class _Claim(Frozen):
    """One row of nulls when nothing was claimed. `last` is where the claim stopped: null at the end of the round."""

    last: UUID | None
    lease: UUID | None
    id: UUID | None
    org_id: UUID | None
    url: str | None
    sealed_secret: bytes | None
    previous_sealed_secret: bytes | None


class _Due(HappenedRow):
    id: UUID
    attempts: int
    waited: timedelta


class _Settled(Frozen):
    failing_since: datetime | None


class PostgresWebhookQueue:
    """Implements `ports.tenancy.webhook_deliveries.WebhookQueue`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._rounds = Rounds(pool, _Claim, _CLAIM)

    async def claim(self, limit: int, lease: timedelta, *, failing: bool, busy: Sequence[OrganizationId] = ()) -> Sequence[Claimed]:
        return [
            Claimed(
                webhook=WebhookId(row.id),
                organization=OrganizationId(row.org_id),
                url=row.url,
                sealed_secret=row.sealed_secret,
                previous_sealed_secret=row.previous_sealed_secret,
                is_failing=failing,
                lease=row.lease,
            )
            for row in await self._rounds.claim(limit, lease, failing=failing, busy=busy)
            if row.id is not None and row.org_id is not None and row.url is not None
            if row.sealed_secret is not None and row.lease is not None
        ]

    async def due(self, claimed: Claimed, limit: int) -> Sequence[DueDelivery]:
        rows = await ask(self._pool, _Due, _DUE, {"destination": claimed.webhook, "lease": claimed.lease, "limit": limit})
        return [DueDelivery(WebhookDeliveryId(row.id), row.attempts, row.happened(), row.waited) for row in rows]

    async def settle(self, claimed: Claimed, outcomes: Sequence[Outcome]) -> datetime | None:
        rows = await ask(
            self._pool, _Settled, _SETTLE, {"destination": claimed.webhook, "lease": claimed.lease, "outcomes": told(outcomes)}
        )
        return rows[0].failing_since if rows else None

    async def release(self, claimed: Claimed, rest: timedelta | None = None) -> None:
        await tell(self._pool, _RELEASE, {"destination": claimed.webhook, "lease": claimed.lease, "rest": rest})


_QUEUE: Final = Queue(
    waiting="webhook_deliveries",
    of="webhook_id",
    destinations="webhooks",
    key="id",
    joins="join organizations on organizations.id = webhooks.org_id",
    may_be_called="webhooks.is_active and organizations.status = 'active'",
)

_CLAIM: Final[LiteralString] = claiming(
    _QUEUE,
    """claimed.id, claimed.org_id, claimed.url, claimed.sealed_secret,
         case when claimed.previous_until > now() then claimed.previous_sealed_secret end as previous_sealed_secret""",
)

_DUE: Final[LiteralString] = finding(_QUEUE, f"now() - deliveries.next_at as waited, {HAPPENED}", WITH_EVENT, "deliveries.event_id")

_SETTLE: Final[LiteralString] = settling(_QUEUE, "response_body = outcomes.response_body,")

_RELEASE: Final[LiteralString] = releasing(_QUEUE)

# The janitor's: gives up what waits for a webhook that is disabled, or for an organization that is not active.
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
