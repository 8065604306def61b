"""The queue of deliveries in PostgreSQL. A claim takes destinations; what is due for each is looked up once the claim is committed, since a
statement sees the deliveries as they were before it waited for nobody.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask, tell
from adapters.postgres.storable import storable_text
from adapters.postgres.tenancy.webhook_deliveries import HAPPENED, WITH_EVENT, HappenedRow
from core.domain.identifiers import WebhookDeliveryId, WebhookId
from core.domain.tenancy.webhook_deliveries import DueDelivery, Outcome
from ports.tenancy.webhook_deliveries import Claimed

# Destinations with something pending that one claim looks at. The next one goes on where it stopped.
_LOOKED_AT: Final = 500
_FIRST: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class _Claim:
    """One row of nulls when nothing was claimed. `last` is where the claim stopped: null at the end of the round."""

    last: UUID | None
    id: UUID | None
    url: str | None
    sealed_secret: bytes | None
    previous_sealed_secret: bytes | None
    lease: UUID | None


@dataclass(frozen=True, slots=True)
class _Due(HappenedRow):
    id: UUID
    attempts: int
    waited: timedelta


@dataclass(frozen=True, slots=True)
class _Settled:
    failing_since: datetime | None


class PostgresWebhookQueue:
    """Implements `ports.tenancy.webhook_deliveries.WebhookQueue`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._after = {True: _FIRST, False: _FIRST}

    async def claim(self, limit: int, lease: timedelta, *, failing: bool) -> Sequence[Claimed]:
        """Goes round: after the last destination comes the first again, so none waits for ever behind others."""
        ends = 1 if self._after[failing] == _FIRST else 2
        while True:
            parameters = {"after": self._after[failing], "limit": limit, "lease": lease, "failing": failing, "most": _LOOKED_AT}
            rows = await ask(self._pool, _Claim, _CLAIM, parameters)
            self._after[failing] = rows[0].last or _FIRST
            claimed = [
                Claimed(
                    webhook=WebhookId(row.id),
                    url=row.url,
                    sealed_secret=row.sealed_secret,
                    previous_sealed_secret=row.previous_sealed_secret,
                    is_failing=failing,
                    lease=row.lease,
                )
                for row in rows
                if row.id is not None and row.url is not None and row.sealed_secret is not None and row.lease is not None
            ]
            ends -= rows[0].last is None
            if claimed or ends == 0:
                return claimed

    async def due(self, claimed: Claimed, limit: int) -> Sequence[DueDelivery]:
        rows = await ask(self._pool, _Due, _DUE, {"webhook": claimed.webhook, "lease": claimed.lease, "limit": limit})
        return [DueDelivery(WebhookDeliveryId(row.id), row.attempts, row.happened(), row.waited) for row in rows]

    async def settle(self, claimed: Claimed, outcomes: Sequence[Outcome]) -> datetime | None:
        told = [
            {
                "id": str(outcome.delivery),
                "attempts": outcome.attempts,
                "delivered": outcome.delivered,
                "status_code": outcome.status_code,
                "response_body": None if outcome.response_body is None else storable_text(outcome.response_body),
                "error": outcome.error,
                "pause": None if outcome.pause is None else outcome.pause.total_seconds(),
                "rest": None if outcome.rest is None else outcome.rest.total_seconds(),
            }
            for outcome in outcomes
        ]
        rows = await ask(self._pool, _Settled, _SETTLE, {"webhook": claimed.webhook, "lease": claimed.lease, "outcomes": Jsonb(told)})
        return rows[0].failing_since if rows else None

    async def release(self, claimed: Claimed, rest: timedelta | None = None) -> None:
        await tell(self._pool, _RELEASE, {"webhook": claimed.webhook, "lease": claimed.lease, "rest": rest})


# When the server crashes, the outcomes of its last moments are lost, and what they are about is sent again, as after any crash. So nobody
# waits for the disk: that would take longer than the attempt.
_AT_LEISURE: Final = "set_config('synchronous_commit', 'off', true) = 'off'"

# Hops from destination to destination through the index, and reads the earliest delivery of each. So neither a long queue for one of them
# nor a crowd of later deliveries slows it down.
_CLAIM: Final[LiteralString] = f"""
    with recursive
         pending (webhook_id, next_at) as (
             (select webhook_id, next_at
                from webhook_deliveries
               where next_at is not null and webhook_id > %(after)s
               order by webhook_id, next_at
               limit 1)
              union all
             select next.webhook_id, next.next_at
               from pending
              cross join lateral (
                        select webhook_id, next_at
                          from webhook_deliveries
                         where next_at is not null and webhook_id > pending.webhook_id
                         order by webhook_id, next_at
                         limit 1
                    ) as next
         ),
         looked as materialized (select webhook_id, next_at from pending limit %(most)s),
         chosen as materialized (
             select free.id
               from looked
              cross join lateral (
                        select webhooks.id
                          from webhooks
                          join organizations on organizations.id = webhooks.org_id
                         where webhooks.id = looked.webhook_id and webhooks.is_active and organizations.status = 'active'
                           and (webhooks.leased_until is null or webhooks.leased_until <= now())
                           and (webhooks.rests_until is null or webhooks.rests_until <= now())
                           and (webhooks.failing_since is not null) = %(failing)s
                           for no key update of webhooks skip locked
                    ) as free
              where looked.next_at <= now()
              limit %(limit)s
         ),
         claimed as (
             update webhooks
                set lease = gen_random_uuid(), leased_until = now() + %(lease)s::interval
               from chosen
              where webhooks.id = chosen.id
          returning webhooks.id, url, sealed_secret, case when previous_until > now() then previous_sealed_secret end as previous, lease
         ),
         ends as (
             select case when (select count(*) from chosen) = %(limit)s then (select max(id::text)::uuid from chosen)
                         when (select count(*) from looked) = %(most)s then (select max(webhook_id::text)::uuid from looked)
                    end as last
         )
  select ends.last, claimed.id, claimed.url, claimed.sealed_secret, claimed.previous as previous_sealed_secret, claimed.lease
    from ends
    left join claimed on true
   where {_AT_LEISURE}
"""

_DUE: Final[LiteralString] = f"""
    select deliveries.id, deliveries.attempts, now() - deliveries.next_at as waited, {HAPPENED}
      from webhooks
      join organizations on organizations.id = webhooks.org_id
     cross join lateral (
               select *
                 from webhook_deliveries
                where webhook_deliveries.webhook_id = webhooks.id and webhook_deliveries.next_at <= now()
                order by webhook_deliveries.next_at
                limit %(limit)s
           ) as deliveries
     {WITH_EVENT}
     where webhooks.id = %(webhook)s and webhooks.lease = %(lease)s and webhooks.is_active and organizations.status = 'active'
     order by deliveries.next_at, deliveries.event_id
"""

# The number of attempts makes it harmless to say it twice, when nobody knows whether the first time was heard.
_SETTLE: Final[LiteralString] = f"""
    with outcomes as materialized (
             select *
               from jsonb_to_recordset(%(outcomes)s)
                 as told (id uuid, attempts smallint, delivered boolean, status_code smallint, response_body text, error text,
                          pause double precision, rest double precision)
         ),
         held as (
             update webhooks
                set failing_since = case when not (select bool_or(delivered) from outcomes) then coalesce(failing_since, now()) end,
                    rests_until = coalesce(now() + make_interval(secs => (select max(rest) from outcomes)), rests_until)
              where id = %(webhook)s and lease = %(lease)s
          returning id, failing_since
         ),
         settled as (
             update webhook_deliveries as deliveries
                set attempts = deliveries.attempts + 1, status_code = outcomes.status_code, response_body = outcomes.response_body,
                    error = outcomes.error, updated_at = now(), delivered_at = case when outcomes.delivered then now() end,
                    next_at = now() + make_interval(secs => outcomes.pause)
               from outcomes, held
              where deliveries.id = outcomes.id and deliveries.webhook_id = held.id and deliveries.attempts = outcomes.attempts
         )
  select failing_since from held where {_AT_LEISURE}
"""

_RELEASE: Final[LiteralString] = f"""
    update webhooks
       set lease = null, leased_until = null, rests_until = coalesce(now() + %(rest)s::interval, rests_until)
     where id = %(webhook)s and lease = %(lease)s and {_AT_LEISURE}
"""

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
