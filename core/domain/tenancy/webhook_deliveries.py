"""Deliveries: one event on its way to one webhook. What is sent, how it is signed, and when it is tried again.

The signature is that of Standard Webhooks (https://www.standardwebhooks.com), and beside it a hex form for receivers that know no other.
"""

import hmac
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.http_dates import http_date
from core.domain.identifiers import EventId, OrganizationId, UserId, WebhookDeliveryId, WebhookId
from core.domain.json import Json
from core.domain.secrets import Secret
from core.domain.tenancy.webhooks import key_of
from core.frozen import Frozen

# After each failure but the last.
PAUSES: Final = (timedelta(minutes=1), timedelta(minutes=2), timedelta(minutes=4), timedelta(minutes=8))
MOST_ATTEMPTS: Final = len(PAUSES) + 1
ATTEMPT_TIMEOUT: Final = timedelta(seconds=10)
# A receiver may ask for more time, but not for ever.
LONGEST_REST: Final = timedelta(hours=6)
LONGEST_KEPT_ANSWER: Final = 2_000
# Why an attempt failed that raised what nobody has foreseen.
BROKEN: Final = "internal_error"
# Events that one replay queues.
MOST_REPLAYED: Final = 10_000


class Happened(Frozen, kw_only=True):
    """The event, as the organization may know it."""

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
    """As its organization sees it. `attempts` counts those that have ended."""

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


class DueDelivery(Frozen):
    """`waited`: for how long it has been due."""

    id: WebhookDeliveryId
    attempts: int
    happened: Happened
    waited: timedelta


class Outcome(Frozen):
    """How an attempt ended. `attempts` is how many there were before it. `pause` is the time to the next one: None when there is none.
    `rest` is what the receiver asked for.
    """

    delivery: UUID
    attempts: int
    delivered: bool
    status_code: int | None = None
    response_body: str | None = None
    error: str | None = None
    pause: timedelta | None = None
    rest: timedelta | None = None

    @property
    def word(self) -> str:
        """For the metrics."""
        if self.delivered:
            return "delivered"
        return "given_up" if self.pause is None else "failed"


class Replayed(Frozen):
    """`continue_from` is where the next replay begins, when there were more events than one may queue."""

    queued: int
    continue_from: datetime | None


def body_of(happened: Happened) -> bytes:
    return json.dumps(happened.payload(), ensure_ascii=False, separators=(",", ":")).encode()


def headers_of(delivery: WebhookDeliveryId, happened: Happened, body: bytes, secrets: Sequence[Secret], now: datetime) -> Mapping[str, str]:
    """`secrets`: the current one first, then the one before it while that still signs."""
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


def answered(due: DueDelivery, status: int, body: bytes, *, retry_after: str | None, now: datetime, spread: float) -> Outcome:
    """Any 2xx is success."""
    text = body[:LONGEST_KEPT_ANSWER].decode("utf-8", "replace")
    if 200 <= status < 300:
        return Outcome(due.id, due.attempts, delivered=True, status_code=status, response_body=text)
    rest = rest_asked(retry_after, now)
    return Outcome(
        due.id,
        due.attempts,
        delivered=False,
        status_code=status,
        response_body=text,
        error=f"answered {status}",
        pause=pause_after(due.attempts, spread, rest),
        rest=rest,
    )


def unanswered(due: DueDelivery, reason: str, spread: float) -> Outcome:
    return Outcome(due.id, due.attempts, delivered=False, error=reason, pause=pause_after(due.attempts, spread, None))


def pause_after(attempts: int, spread: float, rest: timedelta | None, pauses: Sequence[timedelta] = PAUSES) -> timedelta | None:
    """`attempts` there were before the one that has failed. None: it was the last."""
    if attempts >= len(pauses):
        return None
    # Up to a tenth more, so that what failed together does not return together.
    pause = pauses[attempts] * (1 + spread / 10)
    return pause if rest is None else max(pause, rest)


def rest_asked(retry_after: str | None, now: datetime) -> timedelta | None:
    """RFC 9110 section 10.2.3: seconds, or a date. None for anything else."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        asked = timedelta(seconds=int(text))
    else:
        at = http_date(text, now)
        if at is None:
            return None
        asked = at - now
    return min(max(asked, timedelta(0)), LONGEST_REST)


def sealing_context(webhook: UUID) -> str:
    return f"webhooks.sealed_secret:{webhook}"


def previous_sealing_context(webhook: UUID) -> str:
    return f"webhooks.previous_sealed_secret:{webhook}"
