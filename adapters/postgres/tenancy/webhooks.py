"""Webhooks and their deliveries: the list, the queue, and the ways to queue a delivery again."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import Columns, CountRow, IdRow, storable_text
from adapters.postgres.record.audit import IS_BEING_FORGOTTEN, names_somebody_being_forgotten, target_user
from adapters.postgres.record.deliveries import DeliveryTables
from adapters.postgres.statements import OnStatements, first, first_made, only
from adapters.postgres.tenancy.members import owners
from core.domain.causes import causing_request
from core.domain.formats import Json
from core.domain.identifiers import EventId, OrganizationId, UserId, WebhookDeliveryId, WebhookId, first_id
from core.domain.record.event_types import TEST_EVENT, WEBHOOK_TOPIC
from core.domain.requests import MOST_ROWS_COUNTED, Listed, Page
from core.domain.tenancy.webhooks import Delivery, DueEvent, Happened, Replayed, Webhook
from core.frozen import Frozen
from ports.tenancy.receivers import ClaimedWebhook, Owner, WantedDeliveries

WEBHOOK: Final = Columns(Webhook, "webhooks", named={"organization": "org_id"}, texts=("name",))


class WebhookRows(OnStatements):
    """Implements `ports.tenancy.receivers.WebhookStore`."""

    async def list(self, organization: OrganizationId) -> Sequence[Webhook]:
        return await self._statements.ask(WEBHOOK.row, _LIST, {"organization": organization})

    async def find(self, organization: OrganizationId, webhook: WebhookId) -> Webhook | None:
        return first(await self._statements.ask(WEBHOOK.row, _GET, {"organization": organization, "id": webhook}))

    async def count(self, organization: OrganizationId) -> int:
        return only(await self._statements.ask(CountRow, _COUNT, {"organization": organization})).count

    async def add(self, webhook: Webhook, sealed_secret: bytes) -> bool:
        parameters = {**WEBHOOK.values(webhook), "sealed_secret": sealed_secret}
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def find_for_update(self, organization: OrganizationId, webhook: WebhookId) -> Webhook | None:
        return first(await self._statements.ask(WEBHOOK.row, _HOLD, {"organization": organization, "id": webhook}))

    async def save(self, webhook: Webhook) -> bool:
        self._statements.ring(WEBHOOK_TOPIC)
        return bool(await self._statements.ask(IdRow, _SAVE, WEBHOOK.values(webhook)))

    async def sealed_secret(self, webhook: WebhookId) -> bytes:
        return only(await self._statements.ask_in_order(bytes, "select sealed_secret from webhooks where id = %(id)s", {"id": webhook}))

    async def replace_secret(self, webhook: WebhookId, sealed: bytes, previous_sealed: bytes, previous_until: datetime) -> None:
        parameters = {"id": webhook, "sealed": sealed, "previous": previous_sealed, "until": previous_until}
        await self._statements.tell(_ROTATE, parameters)

    async def delete(self, webhook: WebhookId) -> None:
        await self._statements.tell("delete from webhooks where id = %(id)s", {"id": webhook})

    async def pause(self, webhook: WebhookId, failing_since: datetime, at: datetime) -> Webhook | None:
        return first(await self._statements.ask(WEBHOOK.row, _PAUSE, {"id": webhook, "since": failing_since, "at": at}))

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._statements, organization)


_COUNT: Final = "select count(*) as count from webhooks where org_id = %(organization)s"

_ADD: Final[LiteralString] = f"""
    insert into webhooks ({WEBHOOK.into("sealed_secret")}) values ({WEBHOOK.inserted("sealed_secret")})
        on conflict (org_id, name) do nothing
 returning id
"""

_GET: Final[LiteralString] = f"select {WEBHOOK.names} from webhooks where id = %(id)s and org_id = %(organization)s"

_HOLD: Final[LiteralString] = f"{_GET} for no key update"

_LIST: Final[LiteralString] = f"select {WEBHOOK.names} from webhooks where org_id = %(organization)s order by created_at, id"

# The caller holds the organization's row, so nobody else takes the name meanwhile.
_SAVE: Final[LiteralString] = f"""
    update webhooks
       set {WEBHOOK.changes("id", "organization", "created_at", "failing_since")},
           failing_since = case when url = %(url)s and is_active = %(is_active)s then failing_since end,
           rests_until = case when url = %(url)s then rests_until end
     where id = %(id)s
       and not exists (
               select from webhooks as others where others.org_id = %(organization)s and others.name = %(name)s and others.id <> %(id)s
           )
 returning id
"""

_ROTATE: Final = """
    update webhooks
       set sealed_secret = %(sealed)s, previous_sealed_secret = %(previous)s, previous_until = %(until)s, updated_at = now()
     where id = %(id)s
"""

_PAUSE: Final[LiteralString] = f"""
    update webhooks
       set is_active = false, paused_at = %(at)s, updated_at = %(at)s
     where id = %(id)s and is_active and failing_since <= %(since)s
 returning {WEBHOOK.names}
"""


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
FORSAKE_DELIVERIES: Final = """
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
