"""Webhooks of an organization, the outcome of their deliveries, and sending events again."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import WebhookDeliveryId, WebhookId
from core.domain.outbound import LONGEST_URL
from core.domain.record.event_types import EVENT_DATA
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.webhooks import WEBHOOK_DELIVERY_RULES, Delivery, Webhook, WebhookChange, WebhookSettings
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import EMPTY_OBJECT, EmptyObject
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    SHOWN_ONCE,
    CreatedAt,
    Id,
    Name,
    OrganizationPath,
    Paging,
    Total,
    UpdatedAt,
    Word,
    bounded,
    example,
    page_of,
)
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.routes.record.audit import DetailedPagination
from ports.tenancy.receivers import WantedDeliveries

_TAGS = ("webhooks",)
_WEBHOOKS = "/api/organizations/{org_slug}/webhooks"
_WEBHOOK = f"{_WEBHOOKS}/{{webhook_id}}"
_MANAGE = able(Capability.WEBHOOKS_MANAGE, impersonated=True)
# The receiver gets the organization's events, and outlasts an impersonation.
_REDIRECT = able(Capability.WEBHOOKS_MANAGE, impersonated=False)

_Url = Annotated[str, bounded({"maxLength": LONGEST_URL, "format": "uri"}, examples=["https://crm.example.org/hooks"])]
_Events = Annotated[Sequence[Word], example(["user.joined", "user.login.success"])]


class WebhookPath(OrganizationPath, frozen=True):
    webhook_id: UUID
    """The webhook's ID."""


class NewWebhookBody(msgspec.Struct, frozen=True):
    """A webhook to create."""

    name: Annotated[Name, example("CRM")]
    """1 to 100 characters. The name must be unique in the organization."""
    url: _Url
    """The URL that events are sent to: an `http` or `https` URL."""
    events: _Events
    """The event types to send, at least one. `event-types` lists them."""
    is_active: bool = True
    """Whether Postern sends events."""


class WebhookPatch(msgspec.Struct, frozen=True):
    """A change of a webhook. Omitted fields keep their values."""

    name: Annotated[Name, example("CRM")] | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    url: _Url | msgspec.UnsetType = msgspec.UNSET
    """The URL that events are sent to."""
    events: _Events | msgspec.UnsetType = msgspec.UNSET
    """The event types to send. The list replaces the previous one."""
    is_active: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether Postern sends events."""


class WebhookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook, without its secret."""

    id: Id
    name: Annotated[str, example("CRM")]
    """The webhook's name."""
    url: Annotated[str, example("https://crm.example.org/hooks")]
    """The URL that events are sent to."""
    events: _Events
    """The event types that are sent."""
    is_active: Annotated[bool, example(True)]
    """Whether Postern sends events."""
    paused_at: datetime | None
    """When Postern disabled the webhook because it had failed for 5 days; null if Postern did not."""
    failing_since: datetime | None
    """When deliveries started to fail; null if the last delivery succeeded."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class WebhookWithSecret(WebhookRecord, frozen=True, kw_only=True):
    """A webhook with its new secret, which is shown only once."""

    secret: Annotated[str, SHOWN_ONCE, example("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=")]
    """The secret that signs the deliveries. It is shown only once."""


class WebhookList(msgspec.Struct, frozen=True):
    """All webhooks of the organization."""

    webhooks: Sequence[WebhookRecord]
    """The webhooks, the oldest first."""
    total: Total


class WebhookEventType(msgspec.Struct, frozen=True):
    """An event type that a webhook can subscribe to."""

    value: Annotated[str, example("user.joined")]
    """The event type, as in webhooks and deliveries."""
    label: Annotated[str, example("Person joined")]
    """The display name of the event type."""
    category: Annotated[str, example("User management")]
    """The category of the event type."""
    description: Annotated[str, example("For a new member the invitation and the role.")]
    """The contents of `data`."""
    example: Annotated[Mapping[str, Any], example({"role": "member"})]
    """An example of `data`."""


@endpoint.post(_WEBHOOKS, caller=_REDIRECT, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def create_webhook(call: Call[NewWebhookBody, None, OrganizationPath, Member], postern: Postern) -> WebhookWithSecret:
    """Create a webhook

    Postern sends each event of these types to the URL as a POST request, signed as in Standard Webhooks. Verify `webhook-signature` with
    the secret, which is shown only once. Any 2xx response within 10 seconds confirms the delivery. Otherwise Postern tries 4 more times,
    after 1, 2, 4 and 8 minutes, or later if the response has `Retry-After`. An event can arrive twice, with the same `webhook-id`, and
    events can arrive out of order. An organization can have at most 50 webhooks.
    """
    created = await postern.tenancy.webhooks.create(call.caller, call.actor, _wanted(call.body))
    return _with_secret(created.webhook, secret=created.secret.reveal())


@endpoint.get(_WEBHOOKS, caller=_MANAGE, keys=True, tags=_TAGS)
async def list_webhooks(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> WebhookList:
    """List the webhooks of an organization

    Return the webhooks, the oldest first, including disabled ones. The response does not contain secrets.
    """
    webhooks = await postern.tenancy.webhooks.list(call.caller)
    return WebhookList([_record(webhook) for webhook in webhooks], len(webhooks))


@endpoint.get(f"{_WEBHOOKS}/event-types", caller=_MANAGE, keys=True, tags=_TAGS)
def list_webhook_event_types(_call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[WebhookEventType]:
    """List the webhook event types

    Return the event types that a webhook can subscribe to, each with a display name. New versions can add types.
    """
    label = shipped_pages().event_label
    return [
        WebhookEventType(one.name, label(one.name), one.category, EVENT_DATA[one.name].description, EVENT_DATA[one.name].example)
        for one in postern.tenancy.webhooks.event_types()
    ]


@endpoint.get(_WEBHOOK, caller=_MANAGE, keys=True, tags=_TAGS)
async def get_webhook(call: Call[None, None, WebhookPath, Member], postern: Postern) -> WebhookRecord:
    """Get a webhook

    The response does not contain the secret. Only the responses that create or rotate it do.
    """
    return _record(await postern.tenancy.webhooks.get(call.caller, WebhookId(call.path.webhook_id)))


@endpoint.patch(_WEBHOOK, caller=_REDIRECT, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def change_webhook(call: Call[WebhookPatch, None, WebhookPath, Member], postern: Postern) -> WebhookRecord:
    """Change a webhook

    While the webhook is disabled, Postern sends nothing. Pending deliveries are dropped within minutes: to send them again, use a replay.
    """
    webhook = WebhookId(call.path.webhook_id)
    return _record(await postern.tenancy.webhooks.change(call.caller, webhook, call.actor, _change(call.body)))


@endpoint.delete(_WEBHOOK, caller=_MANAGE, keys=True, tags=_TAGS)
async def delete_webhook(call: Call[None, None, WebhookPath, Member], postern: Postern) -> EmptyObject:
    """Delete a webhook

    The history of its deliveries is deleted, too. This cannot be undone.
    """
    await postern.tenancy.webhooks.delete(call.caller, WebhookId(call.path.webhook_id), call.actor)
    return EMPTY_OBJECT


@endpoint.post(f"{_WEBHOOK}/rotate-secret", caller=_REDIRECT, keys=True, limit=CREDENTIALS, tags=_TAGS)
async def rotate_webhook_secret(call: Call[None, None, WebhookPath, Member], postern: Postern) -> WebhookWithSecret:
    """Rotate the secret of a webhook

    For 24 hours, `webhook-signature` also has a signature with the previous secret, so that you can change the receiver without a gap.
    `X-Webhook-Signature` uses the new secret at once.
    """
    rotated = await postern.tenancy.webhooks.rotate_secret(call.caller, WebhookId(call.path.webhook_id), call.actor)
    return _with_secret(rotated.webhook, secret=rotated.secret.reveal())


_wanted = taken(NewWebhookBody, WebhookSettings)
_change = taken(WebhookPatch, WebhookChange)
_with_secret = shown(Webhook, WebhookWithSecret, given=("secret",))
_record = shown(Webhook, WebhookRecord)


_WEBHOOK_DELIVERY_WEBHOOK = "/api/organizations/{org_slug}/webhooks/{webhook_id}"

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
    """The webhook's ID."""
    delivery_id: UUID
    """The delivery's ID."""


class DeliveriesQuery(Paging, frozen=True, kw_only=True):
    """A filter on deliveries."""

    event_type: _EventName | None = None
    """Return only deliveries of this event type."""
    delivered: bool | None = None
    """True returns only successful deliveries; false returns only the others."""


class ReplayBody(msgspec.Struct, frozen=True):
    """The events to send again."""

    since: _Moment
    """Send only events at or after this time. Include the UTC offset."""
    until: _Moment | None = None
    """Send only events before this time; the current time by default."""
    event_type: _EventName | None = None
    """Send only events of this type."""


class ReplayResult(msgspec.Struct, frozen=True):
    """The result of a replay."""

    queued: Annotated[int, example(120)]
    """The number of events that Postern sends again, at most 10 000."""
    continue_from: datetime | None
    """If events are left, the `since` of the next replay; null otherwise."""


class DeliveryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery of an event to a webhook."""

    id: Id
    webhook_id: UUID
    """The webhook's ID."""
    webhook_name: Annotated[str, example("CRM")]
    """The webhook's name."""
    event_type: Annotated[str, example("user.joined")]
    """The event type."""
    payload: Annotated[Mapping[str, Any], example(_PAYLOAD)]
    """The body: `event`, `timestamp`, `organization_id`, `actor_user_id` and `actor_email` (the person who acted), `target_type` and
    `target_id` (the object of the action, as in the audit log), and `data`.
    """
    response_status_code: Annotated[int, example(200)] | None
    """The status code of the last response; null if there was none."""
    response_body: Annotated[str, example("ok")] | None
    """The beginning of the last response; null if there was none."""
    attempt_count: Annotated[int, example(1)]
    """The number of attempts."""
    max_attempts: Annotated[int, example(5)]
    """The maximum number of attempts."""
    next_retry_at: datetime | None
    """When the next attempt is due; null if there is none."""
    delivered: Annotated[bool, example(True)]
    """Whether the delivery succeeded."""
    delivery_error: Annotated[str, example("timeout")] | None
    """The reason for the failure of the last attempt; null if it succeeded."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class DeliveryList(msgspec.Struct, frozen=True):
    """One page of deliveries."""

    deliveries: Sequence[DeliveryRecord]
    """The deliveries on this page, the newest events first."""
    pagination: DetailedPagination
    """The position of this page in the list."""


@endpoint.get(f"{_WEBHOOK_DELIVERY_WEBHOOK}/deliveries", caller=_MANAGE, keys=True, tags=_TAGS)
async def list_webhook_deliveries(call: Call[None, DeliveriesQuery, WebhookPath, Member], postern: Postern) -> DeliveryList:
    """List the deliveries of a webhook

    Return the deliveries, the newest events first. They are kept for 30 days, unless the operator of this installation has set another
    period. A `total` of 10 000 means "10 000 or more".
    """
    query = call.query
    wanted = WantedDeliveries(query.event_type, query.delivered)
    listed = await postern.tenancy.webhook_deliveries.list(call.caller, WebhookId(call.path.webhook_id), wanted, page_of(query))
    pages = -(-listed.total // query.limit)
    pagination = DetailedPagination(query.page, query.limit, listed.total, pages, query.page < pages, query.page > 1)
    return DeliveryList([_record_webhook_delivery(delivery) for delivery in listed.items], pagination)


@endpoint.post(f"{_WEBHOOK_DELIVERY_WEBHOOK}/test", caller=_MANAGE, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def test_webhook(call: Call[None, None, WebhookPath, Member], postern: Postern) -> DeliveryRecord:
    """Send a test event to a webhook

    Postern sends an event of the type `webhook.tested` to this webhook, even if it does not subscribe to this type. To see the result, list
    its deliveries.
    """
    return _record_webhook_delivery(await postern.tenancy.webhooks.test(call.caller, WebhookId(call.path.webhook_id), call.actor))


@endpoint.post(
    f"{_WEBHOOK_DELIVERY_WEBHOOK}/deliveries/{{delivery_id}}/redeliver",
    caller=_MANAGE,
    keys=True,
    limit=CREDENTIALS,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def redeliver_webhook_event(call: Call[None, None, DeliveryPath, Member], postern: Postern) -> DeliveryRecord:
    """Redeliver an event

    Postern sends the event again, with the same `webhook-id` and the full number of attempts.
    """
    path = call.path
    webhook, delivery = WebhookId(path.webhook_id), WebhookDeliveryId(path.delivery_id)
    return _record_webhook_delivery(await postern.tenancy.webhook_deliveries.redeliver(call.caller, webhook, delivery))


@endpoint.post(f"{_WEBHOOK_DELIVERY_WEBHOOK}/replay", caller=_MANAGE, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def replay_webhook(call: Call[ReplayBody, None, WebhookPath, Member], postern: Postern) -> ReplayResult:
    """Replay events to a webhook

    Postern sends the events of a period again, the oldest first. It sends the organization's events of the types that the webhook
    subscribes to, whether delivered or not, including events from before the webhook existed. Each event keeps its `webhook-id`.
    """
    body = call.body
    replayed = await postern.tenancy.webhook_deliveries.replay(
        call.caller, WebhookId(call.path.webhook_id), body.since, body.until, body.event_type
    )
    return ReplayResult(replayed.queued, replayed.continue_from)


_record_webhook_delivery = shown(
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
