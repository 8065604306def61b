"""Webhooks: their URL, events and secret, and the deliveries to them."""

import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import EventId, OrganizationId, UserId, WebhookDeliveryId, WebhookId
from core.domain.lines import typed_line
from core.domain.outbound import NotADestination, OutboundDestination, destination
from core.domain.record.deliveries import DeliveryRules, DueDelivery
from core.domain.record.event_types import WEBHOOK_EVENTS
from core.domain.record.events import SYSTEM, Actor, Event, Target, differences
from core.domain.requests import UNCHANGED, RecordChange, Unchanged
from core.domain.secrets import Secret
from core.frozen import Frozen

# Each event costs one more row and one more call for each webhook.
MOST_WEBHOOKS: Final = 50
LONGEST_NAME: Final = 100
# How long the previous secret still signs after a rotation.
OVERLAP: Final = timedelta(hours=24)
# A webhook is paused when all its deliveries have failed for this time.
PATIENCE: Final = timedelta(days=5)

SECRET_BYTES: Final = 32
_KIND: Final = "whsec_"
_SUBSCRIBABLE: Final = tuple(one.name for one in WEBHOOK_EVENTS)


class WebhookSettings(Frozen, kw_only=True):
    name: str
    url: str
    events: Sequence[str]
    is_active: bool = True


class WebhookChange(RecordChange, kw_only=True):
    name: str | Unchanged = UNCHANGED
    url: str | Unchanged = UNCHANGED
    events: Sequence[str] | Unchanged = UNCHANGED
    is_active: bool | Unchanged = UNCHANGED


class Webhook(WebhookSettings, kw_only=True):
    """`paused_at` is the time when Postern disabled the webhook because it had failed for days. `paused_at` is None when the webhook is
    enabled, or when a person has disabled the webhook. `failing_since` is the first failure after the last success.
    """

    id: WebhookId
    organization: OrganizationId
    paused_at: datetime | None
    failing_since: datetime | None = None
    created_at: datetime
    updated_at: datetime


def secret_of(random: bytes) -> Secret:
    """A secret in the form of Standard Webhooks."""
    return Secret(_KIND + b64encode(random).decode())


def key_of(secret: Secret) -> bytes:
    """The bytes that the secret's text stands for."""
    return b64decode(secret.reveal().removeprefix(_KIND))


def webhook_name(text: str) -> str:
    name = typed_line("name", text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters", words="field_length", values={"least": 1, "most": LONGEST_NAME})
    return name


def webhook_destination(text: str) -> OutboundDestination:
    """Raises `BadRequest`."""
    try:
        return destination(text)
    except NotADestination as refusal:
        raise BadRequest(f"url: {refusal}", words="web_address") from None


def subscription(names: Collection[str]) -> tuple[str, ...]:
    """The subscribed events, each once, in the order of the catalogue. Raises `BadRequest`."""
    if not names:
        raise BadRequest("events: name at least one", words="tick_one")
    if len(names) > len(_SUBSCRIBABLE) or not set(names) <= set(_SUBSCRIBABLE):
        raise BadRequest(f"events: each once, and each one of {', '.join(_SUBSCRIBABLE)}", words="tick_one")
    return tuple(name for name in _SUBSCRIBABLE if name in names)


def require_room(count: int) -> None:
    if count >= MOST_WEBHOOKS:
        raise BadRequest(
            f"An organization has at most {MOST_WEBHOOKS} webhooks: delete one first", words="limit_reached", values={"most": MOST_WEBHOOKS}
        )


def require_active(webhook: Webhook) -> None:
    if not webhook.is_active:
        raise BadRequest("This webhook is disabled: enable it first", words="webhook_disabled")


def webhook_created(webhook: Webhook, actor: Actor) -> Event:
    return _event("webhook.created", webhook, actor, {**_facts(webhook)})


def webhook_updated(before: Webhook, after: Webhook, actor: Actor) -> Event:
    """The event says what changed, with the earlier values."""
    details: dict[str, Json] = {"name": after.name, **differences(_facts(before), _facts(after))}
    if before.url != after.url:
        details["url_changed"] = True
    return _event("webhook.updated", after, actor, details)


def webhook_deleted(webhook: Webhook, actor: Actor) -> Event:
    return _event("webhook.deleted", webhook, actor, {**_facts(webhook)})


def secret_rotated(webhook: Webhook, actor: Actor) -> Event:
    return _event("webhook.secret_rotated", webhook, actor, {"name": webhook.name})


def webhook_tested(webhook: Webhook, actor: Actor) -> Event:
    return _event("webhook.tested", webhook, actor, {"name": webhook.name})


def webhook_paused(webhook: Webhook, failing_since: datetime) -> Event:
    return _event("webhook.paused", webhook, SYSTEM, {"name": webhook.name, "failing_since": failing_since.isoformat()})


def _facts(webhook: Webhook) -> Mapping[str, Json]:
    """The event has no URL, because the URL may contain a token of the receiver."""
    return {
        "name": webhook.name,
        "host": webhook_destination(webhook.url).host,
        "events": list(webhook.events),
        "is_active": webhook.is_active,
    }


def _event(name: str, webhook: Webhook, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("webhook", str(webhook.id)), webhook.organization, details)


WEBHOOK_DELIVERY_RULES: Final = DeliveryRules(
    pauses=(timedelta(minutes=1), timedelta(minutes=2), timedelta(minutes=4), timedelta(minutes=8)),
    received=range(200, 300),
    longest_kept_answer=2_000,
)
# The number of events that one replay queues.
MOST_REPLAYED: Final = 10_000


class Happened(Frozen, kw_only=True):
    """The event, with the data that the organization may know."""

    id: EventId
    name: str
    organization: OrganizationId
    actor: UserId | None
    actor_email: str | None
    target_type: str
    target_id: str
    data: Mapping[str, Json]
    occurred_at: datetime

    def payload(self) -> Mapping[str, Json]:
        return {
            "event": self.name,
            "timestamp": self.occurred_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "organization_id": str(self.organization),
            "actor_user_id": None if self.actor is None else str(self.actor),
            "actor_email": self.actor_email,
            "target_type": self.target_type,
            "target_id": self.target_id,
            "data": self.data,
        }


class Delivery(Frozen, kw_only=True):
    """One event on its way to one webhook, as the organization sees it. `attempts` counts the attempts that have ended."""

    id: WebhookDeliveryId
    webhook: WebhookId
    webhook_name: str
    happened: Happened
    attempts: int
    next_at: datetime | None
    delivered_at: datetime | None
    status_code: int | None
    response_body: str | None
    error: str | None
    created_at: datetime
    updated_at: datetime


class DueEvent(DueDelivery):
    """A delivery that is due. `waited` is the time since it became due."""

    happened: Happened
    waited: timedelta


class Replayed(Frozen):
    """The result of a replay. `continue_from` is where the next replay begins, when there were more events than one replay may queue."""

    queued: int
    continue_from: datetime | None


def body_of(happened: Happened) -> bytes:
    return json.dumps(happened.payload(), ensure_ascii=False, separators=(",", ":")).encode()


def headers_of(delivery: UUID, happened: Happened, body: bytes, secrets: Sequence[Secret], now: datetime) -> Mapping[str, str]:
    """`secrets` has the current secret first, then the previous one while it still signs."""
    return {
        **signature_headers(happened.id, body, secrets, now),
        "user-agent": "Postern-Webhooks",
        "X-Webhook-Event": happened.name,
        "X-Webhook-Delivery": str(delivery),
        "X-Webhook-Timestamp": str(int(now.timestamp())),
        "X-Webhook-Signature": f"sha256={hmac.new(secrets[0].reveal().encode(), body, sha256).hexdigest()}",
    }


def signature_headers(id: UUID, body: bytes, secrets: Sequence[Secret], now: datetime) -> Mapping[str, str]:  # noqa: A002 - their word
    """Returns the headers of Standard Webhooks (https://www.standardwebhooks.com). A second signature in hex is for receivers that do not
    know this standard. `secrets` has the current secret first, then the previous one while it still signs.
    """
    seconds = str(int(now.timestamp()))
    signed = f"{id}.{seconds}.".encode() + body
    signatures = [b64encode(hmac.digest(key_of(secret), signed, sha256)).decode() for secret in secrets]
    return {
        "content-type": "application/json",
        "webhook-id": str(id),
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def webhook_delivery_context(webhook: UUID) -> str:
    return f"webhooks.sealed_secret:{webhook}"


def previous_sealing_context(webhook: UUID) -> str:
    return f"webhooks.previous_sealed_secret:{webhook}"
