"""The Shared Signals settings of an application: the enabled events, and the hosts of pushes. Owners decide."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.federation.signals import MOST_PUSH_HOSTS, SignalSettings, SignalStream
from core.domain.identity.proofs import StepUp
from core.domain.outbound import destination
from core.domain.record.signals import OFFERED
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, ServicePath, UpdatedAt, Word, example
from entrypoints.http.machinery.limits import UNLIMITED

_TAGS = ("signals",)
_SIGNALS: Final = "/api/organizations/{org_slug}/services/{service_slug}/signals"

_Event = Annotated[Word, example(OFFERED[0].value)]
_Events = Annotated[Sequence[_Event], example([one.value for one in OFFERED[:2]])]
_Hosts = Annotated[
    Sequence[Annotated[str, msgspec.Meta(max_length=260)]], msgspec.Meta(max_length=MOST_PUSH_HOSTS), example(["billing.example.org"])
]


class SignalsBody(msgspec.Struct, frozen=True, kw_only=True):
    """The events that an application can receive, and the hosts that can receive them."""

    events: _Events
    """The event types: `session-revoked`, `credential-change`, `account-disabled`, `account-enabled`, `account-purged`. At least one."""
    hosts: _Hosts = ()
    """The hosts that Postern can push signals to, without ports. At most 20. A stream with another host is rejected."""


class SignalStreamRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that the application has created."""

    id: Id
    host: Annotated[str, example("billing.example.org")] | None
    """The host that signals are pushed to. Only the application sees the full URL, because it can contain a secret of the receiver."""
    events: _Events
    """The event types that the application receives: those that it requested and an owner turned on."""
    description: Annotated[str, example("Sign-outs")] | None
    """The application's description of the stream."""
    status: Annotated[str, example("enabled")]
    """`enabled`, `paused` or `disabled`. Set by the application or an operator of the installation."""
    reason: Annotated[str, example("Maintenance")] | None
    """The reason given with the status."""
    granted_by: Annotated[str, example("ada@example.org")] | None
    """The member who allowed the application to create the stream. When this member loses the right to manage integrations, the stream is
    deleted. Null if the application created the stream with its own token.
    """
    created_at: CreatedAt
    updated_at: UpdatedAt


class SignalsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The shared signals settings of an application."""

    is_active: Annotated[bool, example(True)]
    """Whether an owner has turned shared signals on."""
    events: _Events
    """The event types that the application can receive."""
    hosts: _Hosts
    """The hosts that Postern can push signals to."""
    streams: Sequence[SignalStreamRecord]
    """The streams that the application has created, oldest first."""


@endpoint.get(_SIGNALS, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def get_signals(call: Call[None, None, ServicePath, Member], postern: Postern) -> SignalsRecord:
    """Get the shared signals settings of an application

    Only owners can turn shared signals on. The application creates the streams itself, at `/ssf/streams`.
    """
    return _shown(*await postern.federation.signals.get(call.caller, call.path.service_slug))


@endpoint.put(
    _SIGNALS,
    caller=OWNER_IN_PERSON,
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    verb="signals set",
    tags=_TAGS,
)
async def set_signals(call: Call[SignalsBody, None, ServicePath, Member], postern: Postern) -> SignalsRecord:
    """Turn on or change the shared signals of an application

    Only an owner can do this. The application can then create streams. It receives events about confirmed members, and about people who
    have signed in to it. It never receives events about unconfirmed members. If you remove an event type, it is no longer sent. If you
    remove a host, its streams are deleted.
    """
    body = call.body
    done = await postern.federation.signals.turn_on(call.caller, call.path.service_slug, body.events, body.hosts, call.actor)
    return _shown(*done)


@endpoint.delete(_SIGNALS, status=204, caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, verb="signals remove", tags=_TAGS)
async def remove_signals(call: Call[None, None, ServicePath, Member], postern: Postern) -> NoBody:
    """Turn off the shared signals of an application

    Only an owner can do this. All streams and pending events of the application are deleted.
    """
    await postern.federation.signals.turn_off(call.caller, call.path.service_slug, call.actor)
    return NO_BODY


def _shown(settings: SignalSettings | None, streams: Sequence[SignalStream]) -> SignalsRecord:
    if settings is None:
        return SignalsRecord(is_active=False, events=(), hosts=(), streams=())
    return SignalsRecord(
        is_active=True,
        events=[one.value for one in settings.events],
        hosts=settings.hosts,
        streams=[_stream(one, settings) for one in streams],
    )


def _stream(stream: SignalStream, settings: SignalSettings) -> SignalStreamRecord:
    return SignalStreamRecord(
        id=stream.id,
        host=None if stream.endpoint is None else destination(stream.endpoint).host,
        events=[one.value for one in stream.delivered(settings)],
        description=stream.description,
        status=stream.status.value,
        reason=stream.status_reason,
        granted_by=stream.granter,
        created_at=stream.created_at,
        updated_at=stream.updated_at,
    )
