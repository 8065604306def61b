"""Deliveries of an organization's webhooks: their outcome, and sending events again."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import WebhookDeliveryId, WebhookId
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.webhooks import WEBHOOK_DELIVERY_RULES, Delivery
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, OrganizationPath, UpdatedAt, example
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.machinery.paging import Paging, page_of
from entrypoints.http.routes.record.audit import DetailedPagination
from entrypoints.http.routes.tenancy.webhooks import WebhookPath
from ports.tenancy.receivers import WantedDeliveries

_TAGS = ("webhooks",)
_WEBHOOK = "/api/organizations/{org_slug}/webhooks/{webhook_id}"
_MANAGE = able(Capability.WEBHOOKS_MANAGE, impersonated=True)

_PAYLOAD = {
    "event": "user.joined",
    "timestamp": "2026-03-01T00:00:00Z",
    "organization_id": "018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23",
    "actor_user_id": "018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f24",
    "actor_email": "ada@example.org",
    "target_type": "user",
    "target_id": "018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f25",
    "data": {"role": "member"},
}

_EventName = Annotated[str, msgspec.Meta(min_length=1, max_length=100, examples=["user.joined"])]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class DeliveryPath(OrganizationPath, frozen=True):
    webhook_id: UUID
    """The webhook's id."""
    delivery_id: UUID
    """The delivery's id."""


class DeliveriesQuery(Paging, frozen=True, kw_only=True):
    """A filter on deliveries."""

    event_type: _EventName | None = None
    """Only deliveries of events of this type."""
    delivered: bool | None = None
    """Only received deliveries, or only deliveries that were not received."""


class ReplayBody(msgspec.Struct, frozen=True):
    """A span of time."""

    since: _Moment
    """Only events from this moment on. State the offset from UTC."""
    until: _Moment | None = None
    """Only events before this moment; by default up to now."""
    event_type: _EventName | None = None
    """Only events of this type."""


class ReplayResult(msgspec.Struct, frozen=True):
    """The result of a replay."""

    queued: Annotated[int, example(120)]
    """The number of events that we send again, 10 000 at most."""
    continue_from: datetime | None
    """The next `since`, if events are left; null if none is left."""


class DeliveryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One event for one webhook."""

    id: Id
    webhook_id: UUID
    """The webhook's id."""
    webhook_name: Annotated[str, example("CRM")]
    """The webhook's name."""
    event_type: Annotated[str, example("user.joined")]
    """The type of the event."""
    payload: Annotated[Mapping[str, Any], example(_PAYLOAD)]
    """The body: `event`, `timestamp`, `organization_id`, `actor_user_id` and `actor_email` (the person who acted), `target_type` and
    `target_id` (the object of the action, in the words of the audit log), and `data`.
    """
    response_status_code: Annotated[int, example(200)] | None
    """The status of the last answer; null if there was none."""
    response_body: Annotated[str, example("ok")] | None
    """The beginning of the last answer; null if there was none."""
    attempt_count: Annotated[int, example(1)]
    """How many attempts there were."""
    max_attempts: Annotated[int, example(5)]
    """How many attempts there are at most."""
    next_retry_at: datetime | None
    """When the next attempt is due; null if no attempt follows."""
    delivered: Annotated[bool, example(True)]
    """Whether the receiver got the event."""
    delivery_error: Annotated[str, example("timeout")] | None
    """The reason why the last attempt failed; null if it succeeded."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class DeliveryList(msgspec.Struct, frozen=True):
    """One page of deliveries."""

    deliveries: Sequence[DeliveryRecord]
    """The deliveries on this page, those of the newest events first."""
    pagination: DetailedPagination
    """Where this page stands in the list."""


@endpoint.get(f"{_WEBHOOK}/deliveries", caller=_MANAGE, keys=True, tags=_TAGS)
async def list_webhook_deliveries(call: Call[None, DeliveriesQuery, WebhookPath, Member], postern: Postern) -> DeliveryList:
    """List the deliveries of a webhook, those of the newest events first

    Deliveries are kept for 30 days, unless the operator of this installation chose another time. A `total` of 10 000 means "10 000 or
    more".
    """
    query = call.query
    wanted = WantedDeliveries(query.event_type, query.delivered)
    listed = await postern.tenancy.webhook_deliveries.list(call.caller, WebhookId(call.path.webhook_id), wanted, page_of(query))
    pages = -(-listed.total // query.limit)
    pagination = DetailedPagination(query.page, query.limit, listed.total, pages, query.page < pages, query.page > 1)
    return DeliveryList([_record(delivery) for delivery in listed.items], pagination)


@endpoint.post(f"{_WEBHOOK}/test", caller=_MANAGE, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def test_webhook(call: Call[None, None, WebhookPath, Member], postern: Postern) -> DeliveryRecord:
    """Send a test event to a webhook

    We send an event of the type `webhook.tested` to this webhook, even if the webhook does not subscribe to this type. Look at its
    deliveries to see the outcome.
    """
    return _record(await postern.tenancy.webhooks.test(call.caller, WebhookId(call.path.webhook_id), call.actor))


@endpoint.post(
    f"{_WEBHOOK}/deliveries/{{delivery_id}}/redeliver", caller=_MANAGE, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS
)
async def redeliver_webhook_event(call: Call[None, None, DeliveryPath, Member], postern: Postern) -> DeliveryRecord:
    """Send an event again

    The event keeps its `webhook-id`, and gets all of its attempts once more.
    """
    path = call.path
    webhook, delivery = WebhookId(path.webhook_id), WebhookDeliveryId(path.delivery_id)
    return _record(await postern.tenancy.webhook_deliveries.redeliver(call.caller, webhook, delivery))


@endpoint.post(f"{_WEBHOOK}/replay", caller=_MANAGE, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def replay_webhook(call: Call[ReplayBody, None, WebhookPath, Member], postern: Postern) -> ReplayResult:
    """Send the events of a span of time again, the oldest first

    We send the organization's events of the types that the webhook subscribes to, received or not, and also events from before the webhook
    existed. Each event keeps its `webhook-id`.
    """
    body = call.body
    replayed = await postern.tenancy.webhook_deliveries.replay(
        call.caller, WebhookId(call.path.webhook_id), body.since, body.until, body.event_type
    )
    return ReplayResult(replayed.queued, replayed.continue_from)


_record = shown(
    Delivery,
    DeliveryRecord,
    named={
        "webhook_id": "webhook",
        "event_type": "happened.name",
        "response_status_code": "status_code",
        "attempt_count": "attempts",
        "next_retry_at": "next_at",
        "delivery_error": "error",
    },
    payload=lambda delivery: delivery.happened.payload(),
    max_attempts=lambda _delivery: WEBHOOK_DELIVERY_RULES.most_attempts,
    delivered=lambda delivery: delivery.delivered_at is not None,
)
