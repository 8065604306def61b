"""Deliveries to webhooks: one event on its way to one webhook. The content, the signature, and the times of the attempts.

The signature is that of Standard Webhooks (https://www.standardwebhooks.com). A second signature in hex is for receivers that do not know
this standard.
"""

import hmac
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.identifiers import EventId, OrganizationId, UserId, WebhookDeliveryId, WebhookId
from core.domain.json import Json
from core.domain.record.deliveries import DeliveryRules, DueDelivery
from core.domain.secrets import Secret
from core.domain.tenancy.webhooks import key_of
from core.frozen import Frozen

RULES: Final = DeliveryRules(
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
    """A delivery, as its organization sees it. `attempts` counts the attempts that have ended."""

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
    seconds = str(int(now.timestamp()))
    signed = f"{happened.id}.{seconds}.".encode() + body
    signatures = [b64encode(hmac.digest(key_of(secret), signed, sha256)).decode() for secret in secrets]
    return {
        "content-type": "application/json",
        "user-agent": "Postern-Webhooks",
        "webhook-id": str(happened.id),
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
        "X-Webhook-Event": happened.name,
        "X-Webhook-Delivery": str(delivery),
        "X-Webhook-Timestamp": seconds,
        "X-Webhook-Signature": f"sha256={hmac.new(secrets[0].reveal().encode(), body, sha256).hexdigest()}",
    }


def sealing_context(webhook: UUID) -> str:
    return f"webhooks.sealed_secret:{webhook}"


def previous_sealing_context(webhook: UUID) -> str:
    return f"webhooks.previous_sealed_secret:{webhook}"
