"""Webhooks: an organization's address for events, the events that it wants, and the secret that proves that they come from us."""

from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from core.domain.changes import UNCHANGED, RecordChange, Unchanged
from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, WebhookId
from core.domain.json import Json
from core.domain.lines import typed_line
from core.domain.outbound.destinations import NotADestination, OutboundDestination, destination
from core.domain.record.differences import differences
from core.domain.record.event_types import WEBHOOK_EVENTS
from core.domain.record.events import SYSTEM, Actor, Event, Target
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
