"""Shared Signals: streams on which an application receives security events (Shared Signals Framework 1.0, CAEP 1.0, RISC 1.0, and the CAEP
interoperability profile).
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest, Forbidden, RateLimited
from core.domain.federation.oauth.refusals import InsufficientScope
from core.domain.federation.oauth.resources import words
from core.domain.formats import Json
from core.domain.identifiers import ClientId, OrganizationId, ServiceId, SessionId, SignalStreamId, UserId
from core.domain.outbound import NotADestination, OutboundDestination, destination, host, is_public
from core.domain.record.deliveries import DeliveryOutcome, DeliveryRules, DueDelivery
from core.domain.record.events import Actor, Event, Target, differences
from core.domain.record.signals import (
    BY_URI,
    DROPPED_EVENT,
    OFFERED,
    PAUSING_EVENT,
    PURGED_EVENT,
    RESUMING_EVENT,
    SIGNALLED_EVENTS,
    VERIFIED_EVENT,
    SignalType,
)
from core.domain.services.resource_servers import MANAGE_SIGNALS
from core.domain.services.services import Service
from core.frozen import Frozen

MOST_STREAMS: Final = 5
"""Of one application."""
MOST_STREAMS_OF_ORGANIZATION: Final = 100
MOST_PUSH_HOSTS: Final = 20
LONGEST_DESCRIPTION: Final = 200
LONGEST_HEADER: Final = 4_000
LONGEST_STATE: Final = 1_000
LONGEST_REASON: Final = 200
HELD_REASON: Final = "Paused by an operator of this installation"
"""No application may give this reason."""
VERIFICATION_PACE: Final = timedelta(seconds=10)
"""A stream may ask for a verification once in this time."""

PUSH_METHOD: Final = "urn:ietf:rfc:8935"
POLL_METHOD: Final = "urn:ietf:rfc:8936"
CONFIGURATION_ENDPOINT: Final = "/ssf/streams"
STATUS_ENDPOINT: Final = "/ssf/status"
VERIFICATION_ENDPOINT: Final = "/ssf/verification"
POLL_ENDPOINT: Final = "/ssf/poll"

MOST_POLLED: Final = 100
"""In one answer."""
MOST_ANSWERS: Final = 1_000
"""That one poll acknowledges or refuses."""
LONGEST_POLL: Final = timedelta(seconds=30)
MOST_POLLS_OF_ORGANIZATION: Final = 20
"""Polls that wait in one process."""
MOST_POLLS: Final = 200

# What an administrator of the receiver reads. It is a closed list, so nothing of an organization or a person gets into it.
_REASONS: Final[Mapping[str, str]] = {
    "security.password.changed": "The password of the account was changed",
    "security.passkeys.changed": "A passkey of the account was added or removed",
    "security.mfa.enabled": "A second factor of the account was turned on",
    "security.mfa.disabled": "A second factor of the account was turned off",
    "security.account.locked": "The account was locked, because somebody else may have used it",
    "security.account.unlocked": "The person opened the locked account by a new password",
    PURGED_EVENT: "The account was deleted",
    PAUSING_EVENT: "The organization is suspended: nothing is told until it is active again",
    RESUMING_EVENT: "The organization is active again: what happened meanwhile is not told",
    DROPPED_EVENT: "Signals have waited for too long, or too many of them: some were dropped",
}
_REASON_OF_END: Final = "The sessions of the person at the application were ended"
_REASON_OF_AGE: Final = "The session of the person at the application ran out"
_PASSWORD_CHANGES: Final[Mapping[str, str]] = {"set": "create", "removed_unverified": "delete", "ended": "delete"}


class StreamMethod(StrEnum):
    PUSH = "push"
    POLL = "poll"

    @property
    def urn(self) -> str:
        return PUSH_METHOD if self is StreamMethod.PUSH else POLL_METHOD


class StreamStatus(StrEnum):
    ENABLED = "enabled"
    PAUSED = "paused"
    """Signals are queued, and wait."""
    DISABLED = "disabled"
    """Nothing is queued."""


class SignalSettings(Frozen, kw_only=True):
    """What an owner has enabled for an application: the events that it may receive, and the hosts to which pushes may go. The application
    then creates streams. An application without settings has no signals.
    """

    events: tuple[SignalType, ...]
    hosts: tuple[str, ...] = ()
    """The hosts that events may be pushed to."""


class SignalStream(Frozen, kw_only=True):
    """A stream, as its application made it. `events` are those that it asked for."""

    id: SignalStreamId
    service: ServiceId
    method: StreamMethod
    endpoint: str | None
    """Where pushes go. None for a stream that is polled."""
    has_header: bool
    """Whether pushes carry an `Authorization` header. Postern shows the header to nobody."""
    events: tuple[SignalType, ...]
    description: str | None
    status: StreamStatus
    status_reason: str | None
    granted_by: UserId | None = None
    """Who let the application make it. It ends with this person's right. None for one that the application made by a token of its own."""
    granter: str | None = None
    """The address of that person."""
    created_at: datetime
    updated_at: datetime

    @property
    def is_held(self) -> bool:
        """Whether an operator of the installation has paused it. Then the application cannot go on by itself."""
        return self.status is StreamStatus.PAUSED and self.status_reason == HELD_REASON

    def require_not_held(self) -> None:
        """Raises `Forbidden`."""
        if self.is_held:
            raise Forbidden("An operator of this installation has paused the stream: ask them")

    def delivered(self, settings: SignalSettings) -> tuple[SignalType, ...]:
        return tuple(one for one in self.events if one in settings.events)


class SignalGrant(Frozen):
    """A session that a person opened for an application, with scopes of signals. It is good while they may manage integrations."""

    session: SessionId
    user: UserId
    scopes: tuple[str, ...]


class SignalCaller(Frozen, kw_only=True):
    """An application that calls with a token of its own, or of a person who has granted it scopes of signals."""

    service: ServiceId
    service_slug: str
    organization: OrganizationId
    organization_slug: str
    client: ClientId
    settings: SignalSettings | None
    issued_at: datetime
    """When its token was."""
    may_manage: bool = True
    """A token that was asked for with `ssf.read` alone may not."""
    grant: SignalGrant | None = None
    """None for a token of the application's own."""

    def require_management(self) -> None:
        """Raises `InsufficientScope`."""
        if not self.may_manage:
            raise InsufficientScope(MANAGE_SIGNALS)

    @property
    def person(self) -> UserId | None:
        """In whose name the application calls."""
        return None if self.grant is None else self.grant.user

    @property
    def allowed(self) -> SignalSettings:
        """Raises `Forbidden`."""
        if self.settings is None:
            raise Forbidden("No owner of the organization has turned on signals for this application")
        return self.settings


def manages(claims: Mapping[str, Json]) -> bool:
    """Whether an application's own token may change streams: it was asked for with `ssf.manage`, or without scopes."""
    return "scope" not in claims or MANAGE_SIGNALS in words(str(claims["scope"]))


def signal_events(names: Collection[str]) -> tuple[SignalType, ...]:
    """What an owner turns on, each once, in our order. Raises `BadRequest`."""
    if not names:
        raise BadRequest("events: name at least one", words="tick_one")
    if not set(names) <= set(OFFERED):
        raise BadRequest(f"events: each one of {', '.join(OFFERED)}", words="tick_one")
    return tuple(one for one in OFFERED if one in names)


def signal_hosts(names: Sequence[str]) -> tuple[str, ...]:
    """Raises `BadRequest`."""
    if len(names) > MOST_PUSH_HOSTS:
        raise BadRequest(f"hosts: at most {MOST_PUSH_HOSTS}", words="limit_reached", values={"most": MOST_PUSH_HOSTS})
    try:
        return tuple(dict.fromkeys(host(one) for one in names))
    except NotADestination as refusal:
        raise BadRequest(f"hosts: {refusal}", words="web_address") from None


def asked_events(uris: Collection[str] | None) -> tuple[SignalType, ...]:
    """What a stream asks for. Unknown types are ignored, as the framework wants; a stream that names none asks for all."""
    if uris is None:
        return OFFERED
    asked = {known for one in uris if (known := BY_URI.get(one)) is not None}
    return tuple(one for one in OFFERED if one in asked)


def push_destination(endpoint: str, hosts: Collection[str]) -> OutboundDestination:
    """Where pushes go. Raises `BadRequest`, and `Forbidden` for a host that no owner has named."""
    try:
        found = destination(endpoint)
    except NotADestination as refusal:
        raise BadRequest(f"delivery.endpoint_url: {refusal}") from None
    # An address that is not public is one that the operator lets us call: nothing of it passes through the networks of others.
    if found.scheme != "https" and (found.address is None or is_public(found.address)):
        raise BadRequest("delivery.endpoint_url: must start with https://")
    if found.host not in hosts:
        raise Forbidden("delivery.endpoint_url: no owner of the organization has allowed this host for signals")
    return found


def goes_to(stream: SignalStream, settings: SignalSettings) -> bool:
    """Whether the stream may go on: it is polled, or pushes to a host that the owner names."""
    return stream.endpoint is None or destination(stream.endpoint).host in settings.hosts


def keeps_header(before: str | None, after: str | None) -> bool:
    """Whether a header that was given for the address of before may go to the new one: it is bound to scheme, host and port."""
    if before is None or after is None:
        return False
    one, other = destination(before), destination(after)
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def authorization_header(text: str) -> str:
    """Raises `BadRequest`."""
    if not 0 < len(text) <= LONGEST_HEADER or not text.isascii() or not text.isprintable():
        raise BadRequest(f"delivery.authorization_header: 1 to {LONGEST_HEADER} printable characters of ASCII")
    return text


def require_room(of_service: int, of_organization: int) -> None:
    if of_service >= MOST_STREAMS:
        raise Forbidden(f"An application has at most {MOST_STREAMS} streams")
    if of_organization >= MOST_STREAMS_OF_ORGANIZATION:
        raise Forbidden(f"The applications of an organization have at most {MOST_STREAMS_OF_ORGANIZATION} streams")


def require_pace(verified_at: datetime | None, now: datetime) -> None:
    if verified_at is not None and now < verified_at + VERIFICATION_PACE:
        raise RateLimited(retry_after=(verified_at + VERIFICATION_PACE - now).total_seconds())


def transmitter_metadata(issuer: str) -> Mapping[str, Json]:
    return {
        "spec_version": "1_0",
        "issuer": issuer,
        "jwks_uri": f"{issuer}/.well-known/jwks.json",
        "delivery_methods_supported": [PUSH_METHOD, POLL_METHOD],
        "configuration_endpoint": f"{issuer}{CONFIGURATION_ENDPOINT}",
        "status_endpoint": f"{issuer}{STATUS_ENDPOINT}",
        "verification_endpoint": f"{issuer}{VERIFICATION_ENDPOINT}",
        "authorization_schemes": [{"spec_urn": "urn:ietf:rfc:6749"}],
        "default_subjects": "ALL",
    }


def poll_address(issuer: str, stream: SignalStreamId) -> str:
    return f"{issuer}{POLL_ENDPOINT}/{stream}"


# What is told


class DueSignal(DueDelivery, kw_only=True):
    """A signal that is due. `event` is the name of the event in the catalogue; None for sessions that have ended."""

    event: str | None
    user: UserId | None
    stream: SignalStreamId
    transaction: str
    happened_at: datetime
    queued_at: datetime
    details: Mapping[str, Json]
    by_policy: bool = False
    waited: timedelta = timedelta(0)
    """The time since the attempt became due."""

    @property
    def type(self) -> SignalType:
        return SignalType.SESSION_REVOKED if self.event is None else SIGNALLED_EVENTS[self.event]


def transaction_of(event: str, organization: OrganizationId) -> str:
    """The same for all streams of an organization, and another one for each organization that hears of the event."""
    return sha256(f"signal\n{event}\n{organization}".encode()).hexdigest()[:32]


def signal_claims(due: DueSignal, *, client: ClientId, issuer: str) -> Mapping[str, Json]:
    """The claims of a SET (RFC 8417). It has neither `sub` nor `exp`, so nobody can take it for a token that opens something. `jti` is the
    same at each attempt: a repeat is known as one.

    A failed push is repeated (RFC 8935).
    """
    subject: dict[str, Json] = (
        {"format": "opaque", "id": str(due.stream)} if due.user is None else {"format": "iss_sub", "iss": issuer, "sub": str(due.user)}
    )
    return {
        "iss": issuer,
        "aud": client,
        "iat": int(due.queued_at.timestamp()),
        "jti": str(due.id),
        "txn": due.transaction,
        "sub_id": subject,
        "events": {due.type.uri: _facts(due)},
    }


def _facts(due: DueSignal) -> dict[str, Json]:
    at: dict[str, Json] = {"event_timestamp": int(due.happened_at.timestamp())}
    match due.type:
        case SignalType.SESSION_REVOKED:
            reason = _REASON_OF_AGE if due.by_policy else _REASON_OF_END
            return {**at, **({"initiating_entity": "policy"} if due.by_policy else {}), "reason_admin": {"en": reason}}
        case SignalType.CREDENTIAL_CHANGE:
            return {**at, **_changed(due), "reason_admin": {"en": _REASONS[due.event or ""]}}
        case SignalType.ACCOUNT_DISABLED:
            return {**at, "reason": "hijacking", "reason_admin": {"en": _REASONS[due.event or ""]}}
        case SignalType.ACCOUNT_ENABLED | SignalType.ACCOUNT_PURGED:
            return {**at, "reason_admin": {"en": _REASONS[due.event or ""]}}
        case SignalType.VERIFICATION:
            state = due.details.get("state")
            return {} if state is None else {"state": state}
        case SignalType.STREAM_UPDATED:
            status = StreamStatus.PAUSED if due.event == PAUSING_EVENT else StreamStatus.ENABLED
            return {"status": status.value, "reason": _REASONS[due.event or ""]}


def _changed(due: DueSignal) -> dict[str, Json]:
    """The kind of the credential and the change, never a value."""
    if due.event == "security.password.changed":
        return {"credential_type": "password", "change_type": _PASSWORD_CHANGES.get(str(due.details.get("how")), "update")}
    if due.event == "security.passkeys.changed":
        return {"credential_type": due.details["kind"], "change_type": due.details["change"]}
    return {"credential_type": "app", "change_type": "create" if due.event == "security.mfa.enabled" else "delete"}


SIGNAL_HEADERS: Final[Mapping[str, str]] = {
    "content-type": "application/secevent+jwt",
    "accept": "application/json",
    "user-agent": "Postern-Signals",
}
WITHDRAWN: Final = "no_longer_told"
"""The error of a signal that was queued and may not be told any more."""


class SignalRules(DeliveryRules):
    """As RFC 8935 section 2.4 has it, a receiver refuses a SET by 400 and the name of an error. Any other answer is tried again."""

    def answered(
        self, due: DueDelivery, status: int, body: bytes, *, retry_after: str | None, now: datetime, spread: float
    ) -> DeliveryOutcome:
        refusal = _refusal(body) if status == 400 else None
        if refusal is not None:
            return DeliveryOutcome(due.id, due.attempts, delivered=False, status_code=status, error=refusal)
        return super().answered(due, status, body, retry_after=retry_after, now=now, spread=spread)


_ERROR_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,60}")


def _refusal(body: bytes) -> str | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    named = answer.get("err") if isinstance(answer, dict) else None
    return refused_for(named) if isinstance(named, str) and named else None


def refused_for(named: str) -> str:
    """What is kept of the error by which an application refuses a signal. Nothing else of what it says is kept: people and programs read
    it.
    """
    return f"refused: {named}" if _ERROR_NAME.fullmatch(named) else "refused"


_HOURS: Final = tuple(timedelta(hours=hours) for hours in (1, 3, 6, 10))
SIGNAL_RULES: Final[DeliveryRules] = SignalRules(
    # All attempts end within 7 days.
    pauses=(*(timedelta(minutes=minutes) for minutes in (1, 4, 15)), *_HOURS, *((_HOURS[-1],) * 14)),
    # RFC 8935 section 2.2 says 202. Some frameworks answer 200, and 204 without a body.
    received=(200, 202, 204),
)
KEPT_FOR: Final = timedelta(days=7)
MOST_WAITING: Final = 10_000
"""Of one stream. The oldest are dropped."""


# Events


def signals_changed(before: SignalSettings | None, after: SignalSettings | None, service: Service, actor: Actor) -> Event:
    """The event says what changed, with the earlier values. Without settings, signals are off."""
    details = {"service_slug": service.slug, **differences(_said(before), _said(after))}
    return Event("service.signals.updated", actor, Target("service", str(service.id)), service.organization, details)


def stream_created(stream: SignalStream, organization: OrganizationId, actor: Actor) -> Event:
    return _of_stream("signal_stream.created", stream, organization, actor, _stream_facts(stream))


def stream_updated(before: SignalStream, after: SignalStream, organization: OrganizationId, actor: Actor) -> Event:
    return _of_stream("signal_stream.updated", after, organization, actor, differences(_stream_facts(before), _stream_facts(after)))


def stream_deleted(stream: SignalStream, organization: OrganizationId, actor: Actor) -> Event:
    return _of_stream("signal_stream.deleted", stream, organization, actor, _stream_facts(stream))


def stream_verified(stream: SignalStream, organization: OrganizationId, state: str | None, actor: Actor) -> Event:
    return _of_stream(VERIFIED_EVENT, stream, organization, actor, {} if state is None else {"state": state})


def stream_tested(stream: SignalStream, organization: OrganizationId, actor: Actor) -> Event:
    """A member asked for the verification: the audit log names them. What an application asks for itself stands in the list of signals."""
    return _of_stream("signal_stream.tested", stream, organization, actor, {})


def _of_stream(name: str, stream: SignalStream, organization: OrganizationId, actor: Actor, details: Mapping[str, Json]) -> Event:
    said = {"service_id": str(stream.service), **details}
    return Event(name, actor, Target("signal_stream", str(stream.id)), organization, said)


def _said(settings: SignalSettings | None) -> Mapping[str, Json]:
    return {
        "is_active": settings is not None,
        "events": [] if settings is None else list(settings.events),
        "hosts": [] if settings is None else list(settings.hosts),
    }


def _stream_facts(stream: SignalStream) -> Mapping[str, Json]:
    """The address stays out: it may contain a token of the receiver."""
    facts: dict[str, Json] = {
        "method": stream.method.value,
        "host": None if stream.endpoint is None else destination(stream.endpoint).host,
        "events": list(stream.events),
        "status": stream.status.value,
    }
    return facts if stream.granted_by is None else {**facts, "granted_by": str(stream.granted_by)}


def header_context(stream: SignalStreamId) -> str:
    return f"signal_streams.sealed_header:{stream}"


# What was told


class SignalFate(StrEnum):
    """What became of a signal."""

    WAITING = "waiting"
    RECEIVED = "received"
    GIVEN_UP = "given_up"
    NO_LONGER_TOLD = "no_longer_told"
    """It was queued, and then it might not be told any more."""
    TOLD_WITH_ANOTHER = "told_with_another"
    """Several sessions of a person ended at once: the application got one signal."""


MERGED: Final = "told_with_another"
"""The error of a signal that another one tells, too."""


class SignalDelivery(Frozen, kw_only=True):
    """A signal of a stream, as the stream's organization sees it. It names nobody: the id, which is `jti` of the signal, is enough to find
    it at the receiver. `attempts` counts the attempts that have ended.
    """

    id: UUID
    place: UUID
    """Its place in the list. A later one is greater."""
    type: SignalType
    attempts: int
    next_at: datetime | None
    delivered_at: datetime | None
    status_code: int | None
    error: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def fate(self) -> SignalFate:
        if self.delivered_at is not None:
            return SignalFate.RECEIVED
        if self.next_at is not None:
            return SignalFate.WAITING
        return {WITHDRAWN: SignalFate.NO_LONGER_TOLD, MERGED: SignalFate.TOLD_WITH_ANOTHER}.get(self.error or "", SignalFate.GIVEN_UP)


def require_telling(stream: SignalStream) -> None:
    """Raises `BadRequest`."""
    if stream.status is StreamStatus.DISABLED:
        raise BadRequest("The application has disabled this stream: nothing is queued for it", words="stream_disabled")
