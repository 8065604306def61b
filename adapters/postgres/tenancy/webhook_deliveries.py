"""Deliveries to webhooks in PostgreSQL: the list, and the ways to queue a delivery again."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.record.being_forgotten import IS_BEING_FORGOTTEN, names_somebody_being_forgotten, target_user
from adapters.postgres.statements import first_made, only
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.causes import causing_request
from core.domain.formats import Json
from core.domain.identifiers import EventId, OrganizationId, UserId, WebhookDeliveryId, WebhookId, first_id
from core.domain.record.event_types import TEST_EVENT, WEBHOOK_TOPIC
from core.domain.requests import MOST_ROWS_COUNTED, Listed, Page
from core.domain.tenancy.webhooks import Delivery, Happened, Replayed
from core.frozen import Frozen
from ports.tenancy.receivers import WantedDeliveries


class HappenedRow(Frozen):
    """The columns of `HAPPENED`."""

    event_id: UUID
    event_name: str
    organization_id: UUID
    actor_id: UUID | None
    actor_email: str | None
    target_type: str
    target_id: str
    data: dict[str, Json]
    occurred_at: datetime

    def happened(self) -> Happened:
        return Happened(
            id=EventId(self.event_id),
            name=self.event_name,
            organization=OrganizationId(self.organization_id),
            actor=None if self.actor_id is None else UserId(self.actor_id),
            actor_email=self.actor_email,
            target_type=self.target_type,
            target_id=self.target_id,
            data=self.data,
            occurred_at=self.occurred_at,
        )


class _Delivery(HappenedRow):
    id: UUID
    webhook_id: UUID
    webhook_name: str
    attempts: int
    next_at: datetime | None
    delivered_at: datetime | None
    status_code: int | None
    response_body: str | None
    error: str | None
    created_at: datetime
    updated_at: datetime

    def delivery(self) -> Delivery:
        return Delivery(
            id=WebhookDeliveryId(self.id),
            webhook=WebhookId(self.webhook_id),
            webhook_name=self.webhook_name,
            happened=self.happened(),
            attempts=self.attempts,
            next_at=self.next_at,
            delivered_at=self.delivered_at,
            status_code=self.status_code,
            response_body=self.response_body,
            error=self.error,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


class _Totals(Frozen):
    total: int
    known: bool


class _Replayed(Frozen):
    queued: int
    last: datetime | None


class WebhookDeliveryRows(OnStatements):
    """Implements `ports.tenancy.receivers.WebhookDeliveryStore`."""

    async def list(self, organization: OrganizationId, webhook: WebhookId, wanted: WantedDeliveries, page: Page) -> Listed[Delivery] | None:
        conditions = _conditions(wanted)
        parameters = {
            "organization": organization,
            "webhook": webhook,
            "event_type": None if wanted.event_type is None else storable_text(wanted.event_type),
            "most": MOST_ROWS_COUNTED,
        }
        (totals,) = await self._statements.ask(_Totals, _TOTALS + conditions + _TOTALS_TAIL, parameters)
        if not totals.known:
            return None
        paged = {**parameters, "offset": page.offset, "limit": page.limit}
        rows: Sequence[_Delivery] = await self._statements.ask(_Delivery, _PAGE + conditions + _PAGE_TAIL, paged)
        return Listed([row.delivery() for row in rows], totals.total)

    async def newest_test(self, webhook: WebhookId) -> Delivery:
        return only(await self._statements.ask(_Delivery, _NEWEST_TEST, {"webhook": webhook, "test": TEST_EVENT})).delivery()

    async def redeliver(self, webhook: WebhookId, delivery: WebhookDeliveryId) -> Delivery | None:
        await self._statements.tell(_REDELIVER, {"webhook": webhook, "id": delivery})
        return first_made(await self._statements.ask(_Delivery, _ONE, {"webhook": webhook, "id": delivery}), _Delivery.delivery)

    async def replay(self, webhook: WebhookId, since: datetime, until: datetime, event_type: str | None, limit: int) -> Replayed:
        # An event's id begins with the time at which the id was made, in milliseconds. This time is a moment before or after `occurred_at`.
        parameters = {
            "webhook": webhook,
            "since": since,
            "until": until,
            "first": first_id(since),
            "event_type": event_type,
            "limit": limit,
            "request": causing_request(),
        }
        (answer,) = await self._statements.ask(_Replayed, _REPLAY, parameters)
        return Replayed(answer.queued, answer.last if answer.queued == limit else None)

    async def ring(self) -> None:
        self._statements.ring(WEBHOOK_TOPIC)


def _conditions(wanted: WantedDeliveries) -> LiteralString:
    by_type: LiteralString = "" if wanted.event_type is None else " and event_name = %(event_type)s"
    if wanted.delivered is None:
        return by_type
    return by_type + (" and delivered_at is not null" if wanted.delivered else " and delivered_at is null")


_ABOUT_SOMEBODY_GOING: Final[LiteralString] = f"""
           ({IS_BEING_FORGOTTEN.format(user="events.actor_id")} or {IS_BEING_FORGOTTEN.format(user=target_user("events"))})"""

# The columns of an event that its organization may read: the details, and the personal part of the details as long as Postern keeps it.
# `actor_email` is the actor's present address.
HAPPENED: Final[LiteralString] = f"""
           events.id as event_id, events.name as event_name, events.organization_id, events.actor_id, users.email as actor_email,
           events.target_type, events.target_id,
           events.details || coalesce(
               -- The personal part about people who are being forgotten may still be stored, but nobody sees it.
               case when not {_ABOUT_SOMEBODY_GOING}
                    then events.personal
               end,
               '{{}}'
           ) as data, events.occurred_at
"""

# The event must belong to the webhook's own organization. No delivery breaks this rule; the condition keeps a bug elsewhere from showing
# one organization's event to another.
WITH_EVENT: Final = """
      join events on events.id = deliveries.event_id and events.organization_id = webhooks.org_id
      left join users on users.id = events.actor_id
"""

_DELIVERIES: Final[LiteralString] = f"""
    select deliveries.id, deliveries.webhook_id, webhooks.name as webhook_name, deliveries.attempts, deliveries.next_at,
           deliveries.delivered_at, deliveries.status_code,
           -- The receiver's response may repeat personal data from the delivery.
           case when not ({_ABOUT_SOMEBODY_GOING} or {names_somebody_being_forgotten("deliveries.response_body")})
                then deliveries.response_body
           end as response_body,
           deliveries.error, deliveries.created_at, deliveries.updated_at, {HAPPENED}
      from webhook_deliveries as deliveries
      join webhooks on webhooks.id = deliveries.webhook_id
      {WITH_EVENT}
"""

_NEWEST_TEST: Final[LiteralString] = f"""
    {_DELIVERIES}
     where deliveries.webhook_id = %(webhook)s and deliveries.event_name = %(test)s
     order by deliveries.event_id desc
     limit 1
"""

_ONE: Final[LiteralString] = f"{_DELIVERIES} where deliveries.webhook_id = %(webhook)s and deliveries.id = %(id)s"

_REDELIVER: Final = """
    update webhook_deliveries
       set next_at = now(), attempts = 0, delivered_at = null, updated_at = now()
     where webhook_id = %(webhook)s and id = %(id)s
"""

_TOTALS: Final = """
    select exists (select from webhooks where id = %(webhook)s and org_id = %(organization)s) as known,
           (select count(*) from (select from webhook_deliveries where webhook_id = %(webhook)s
"""

_TOTALS_TAIL: Final = " limit %(most)s) as capped) as total"

_PAGE: Final[LiteralString] = """
    with page as materialized (
             select id
               from webhook_deliveries
              where webhook_id = (select id from webhooks where id = %(webhook)s and org_id = %(organization)s)
"""

_PAGE_TAIL: Final[LiteralString] = f"""
              order by event_id desc
             offset %(offset)s
              limit %(limit)s
         )
    {_DELIVERIES}
     where deliveries.id in (select id from page)
     order by deliveries.event_id desc
"""

# The condition on `events.id` lets PostgreSQL read an index of the organization's events by their ids, which begin with the time.
# The lock keeps the janitor from deleting an event whose delivery it cannot see yet.
_REPLAY: Final = """
    with replayed as (
             select events.id, events.name, events.occurred_at, webhooks.id as webhook_id
               from webhooks
               join events on events.organization_id = webhooks.org_id
              where webhooks.id = %(webhook)s and events.id >= %(first)s
                and events.occurred_at >= %(since)s and events.occurred_at < %(until)s
                and events.name = any (webhooks.events) and events.name = coalesce(%(event_type)s::text, events.name)
              order by events.id
              limit %(limit)s
                for key share of events
         ),
         queued as (
             insert into webhook_deliveries as deliveries (id, webhook_id, event_id, event_name, next_at, created_at, updated_at,
                                                           request_id)
             select (left(id::text, 15) || substr(gen_random_uuid()::text, 16))::uuid, webhook_id, id, name, now(), now(), now(),
                    %(request)s::uuid
               from replayed
                 on conflict (webhook_id, event_id) do update
                set next_at = now(), attempts = 0, delivered_at = null, updated_at = now()
          returning 1
         )
  select (select count(*) from queued) as queued, max(occurred_at) as last from replayed
"""
