"""The security events that the streams of an application were sent, and verification events that a member requests."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.federation.signals import SIGNAL_RULES, SignalDelivery
from core.domain.identifiers import SignalStreamId
from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, ServicePath, UpdatedAt, example
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("signals",)
_STREAM: Final = "/api/organizations/{org_slug}/services/{service_slug}/signals/streams/{stream_id}"
_MANAGE: Final = able(Capability.WEBHOOKS_MANAGE, impersonated=True)


class SignalStreamPath(ServicePath, frozen=True):
    stream_id: UUID
    """The stream's ID."""


class SignalDeliveriesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A filter on signals."""

    delivered: bool | None = None
    """If true, only delivered signals. If false, only undelivered signals."""
    after: UUID | None = None
    """The `next` value of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The maximum number of signals to return. Values above the maximum are rejected."""


class SignalDeliveryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A signal of a stream, without personal data."""

    id: Id
    """The ID of the signal. It is `jti` for the receiver."""
    event_type: Annotated[str, example("session-revoked")]
    """The event type of the signal."""
    state: Annotated[str, example("received")]
    """`waiting`, `received` or `given_up`. `no_longer_told`: queued, but then no longer allowed for the application. `told_with_another`:
    several sessions of a person ended at once, and the application got one signal.
    """
    response_status_code: Annotated[int, example(202)] | None
    """The status code of the last response; null if there was none."""
    attempt_count: Annotated[int, example(1)]
    """The number of attempts."""
    max_attempts: Annotated[int, example(SIGNAL_RULES.most_attempts)]
    """The maximum number of attempts. For a stream that is polled: no maximum; its signals stay pending until they are acknowledged."""
    next_retry_at: datetime | None
    """When the next attempt is due, or since when the signal can be polled; null if there is no further attempt."""
    delivery_error: Annotated[str, example("timeout")] | None
    """Why the last attempt failed; null if it succeeded."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class SignalDeliveryList(msgspec.Struct, frozen=True):
    """One page of signals."""

    deliveries: Sequence[SignalDeliveryRecord]
    """The signals on this page, newest first."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


@endpoint.get(f"{_STREAM}/deliveries", caller=_MANAGE, keys=True, verb="signal-delivery list", tags=_TAGS)
async def list_signal_deliveries(call: Call[None, SignalDeliveriesQuery, SignalStreamPath, Member], postern: Postern) -> SignalDeliveryList:
    """List signal deliveries

    Returns the signals of a stream, newest first. A signal is dropped after 7 days, or if more than 10 000 newer signals are pending.
    Signals are kept for 30 days, unless the operator of this installation set another period.
    """
    query, path = call.query, call.path
    found = await postern.federation.signal_log.list(
        call.caller,
        path.service_slug,
        SignalStreamId(path.stream_id),
        before=query.after,
        delivered=query.delivered,
        limit=query.limit + 1,
    )
    listed = found[: query.limit]
    return SignalDeliveryList([_record(one) for one in listed], listed[-1].place if len(found) > query.limit else None)


@endpoint.post(
    f"{_STREAM}/verification",
    status=204,
    caller=_MANAGE,
    keys=True,
    limit=CREDENTIALS,
    refuses=(BadRequest,),
    verb="signal-stream verify",
    tags=_TAGS,
)
async def verify_signal_stream(call: Call[None, None, SignalStreamPath, Member], postern: Postern) -> NoBody:
    """Send a verification event to a stream

    The receiver gets an event without a subject, as if the application had requested it at `/ssf/verification`. At most once in 10 seconds.
    """
    path = call.path
    await postern.federation.signal_log.verify(call.caller, path.service_slug, SignalStreamId(path.stream_id), call.actor)
    return NO_BODY


_record = shown(
    SignalDelivery,
    SignalDeliveryRecord,
    named={
        "response_status_code": "status_code",
        "attempt_count": "attempts",
        "next_retry_at": "next_at",
        "delivery_error": "error",
    },
    event_type=lambda delivery: delivery.type.value,
    state=lambda delivery: delivery.fate.value,
    max_attempts=lambda _delivery: SIGNAL_RULES.most_attempts,
)
