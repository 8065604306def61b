"""Stream management of Shared Signals (Shared Signals Framework 1.0), for applications."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from core.domain.errors import BadRequest, NotFound
from core.domain.federation.signals import (
    CONFIGURATION_ENDPOINT,
    STATUS_ENDPOINT,
    VERIFICATION_ENDPOINT,
    VERIFICATION_PACE,
    SignalCaller,
    SignalStream,
    poll_address,
    transmitter_metadata,
)
from core.domain.identifiers import SignalStreamId
from core.domain.record.signals import OFFERED
from core.domain.requests import UNCHANGED, Unchanged
from core.usecases.federation.signals import StreamRequest
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody, Origins
from entrypoints.http.machinery.callers import ANYONE, SIGNAL_RECEIVER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Statement, endpoint
from entrypoints.http.machinery.errors import OAUTH
from entrypoints.http.machinery.fields import Line, Word, example
from entrypoints.http.machinery.limits import UNLIMITED

_DECLARED: Final[Statement] = {
    "caller": SIGNAL_RECEIVER,
    "limit": UNLIMITED,
    "errors": OAUTH,
    "refuses": (BadRequest, NotFound),
    "tags": ("signals",),
}
_MAKING: Final[Statement] = {**_DECLARED, "status": 201}
_WITHOUT_ANSWER: Final[Statement] = {**_DECLARED, "status": 204}
_STREAM: Final = "0199d3a0-0000-7000-8000-000000000008"
_Uris = Annotated[Sequence[Line], msgspec.Meta(max_length=100), example([OFFERED[0].uri])]
_Text = Annotated[str, msgspec.Meta(max_length=5_000)]


def _by_standard(name: str) -> str:
    return f"{name}_url" if name == "endpoint" else name


class StreamDelivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_by_standard):
    """How signals are delivered to the application."""

    method: Annotated[Word, example("urn:ietf:rfc:8935")]
    """The delivery method: `urn:ietf:rfc:8935` for push, `urn:ietf:rfc:8936` for poll."""
    endpoint: Annotated[_Text, example("https://billing.example.org/signals")] | None = None
    """The push URL, on a host that an owner has allowed. For poll, omit it: Postern assigns the URL."""
    authorization_header: Annotated[_Text, example("Bearer 8f3a")] | None = None
    """The `Authorization` header of each push. It is bound to scheme, host and port of the URL. Postern never returns it."""


class NewStream(msgspec.Struct, frozen=True, kw_only=True):
    """The stream to create."""

    delivery: StreamDelivery
    """How signals are delivered."""
    events_requested: _Uris | None = None
    """The event types to receive. Types that are not turned on are ignored. By default, all types that are turned on."""
    description: _Text | None = None
    """A description of the stream for people."""


class StreamUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to a stream, or the whole stream."""

    stream_id: UUID
    """The stream's ID."""
    delivery: StreamDelivery | UnsetType = UNSET
    """How signals are delivered."""
    events_requested: _Uris | UnsetType | None = UNSET
    """The event types to receive."""
    description: _Text | UnsetType | None = UNSET
    """A description of the stream for people."""
    iss: _Text | UnsetType = UNSET
    """Optional. It must match the current value."""
    aud: _Text | Sequence[_Text] | UnsetType = UNSET
    """Optional. It must match the current value."""
    events_supported: _Uris | UnsetType = UNSET
    """Optional. It must match the current value."""
    events_delivered: _Uris | UnsetType = UNSET
    """Optional. It must match the value before the change."""


class StreamConfiguration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The configuration of a stream (SSF 1.0, section 8.1.1)."""

    stream_id: Annotated[str, example(_STREAM)]
    """The stream's ID."""
    iss: Annotated[str, example("https://sso.example.org")]
    """The issuer of all signals: this installation."""
    aud: Annotated[str, example("pc_billing")]
    """The audience of all signals: the application's client ID."""
    delivery: StreamDelivery
    """How signals are delivered."""
    events_supported: _Uris
    """The event types that an owner has turned on."""
    events_requested: _Uris
    """The event types that the application requested."""
    events_delivered: _Uris
    """The event types that the application receives."""
    min_verification_interval: Annotated[int, example(10)]
    """The minimum number of seconds between two verification requests."""
    description: Annotated[str, example("Sign-outs")] | None = None
    """The application's description of the stream."""


_OneOrAll = Annotated[StreamConfiguration | Sequence[StreamConfiguration], msgspec.Meta(description="One stream, or a list of streams.")]


class StreamQuery(msgspec.Struct, frozen=True):
    """The stream."""

    stream_id: UUID
    """The stream's ID."""


class StreamsQuery(msgspec.Struct, frozen=True):
    """The stream, if it is about one."""

    stream_id: UUID | None = None
    """The stream's ID. If omitted, the response lists all streams of the application."""


class StreamStatusBody(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a stream."""

    stream_id: UUID
    """The stream's ID."""
    status: Annotated[str, msgspec.Meta(max_length=20), example("paused")]
    """`enabled`, `paused` (signals are kept) or `disabled` (signals are dropped)."""
    reason: _Text | None = None
    """The application's reason: at most 200 printable characters."""


class StreamStatusAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The status of a stream."""

    stream_id: Annotated[str, example(_STREAM)]
    """The stream's ID."""
    status: Annotated[str, example("enabled")]
    """`enabled`, `paused` or `disabled`."""
    reason: Annotated[str, example("Maintenance")] | None = None
    """The application's reason."""


class VerificationBody(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a verification event."""

    stream_id: UUID
    """The stream's ID."""
    state: _Text | None = None
    """An opaque value that the verification event repeats."""


SIGNAL_DISCOVERY: Final = "/.well-known/ssf-configuration"


@endpoint.get(
    SIGNAL_DISCOVERY,
    caller=ANYONE,
    limit=UNLIMITED,
    cache="public, max-age=300",
    origins=Origins.ALL,
    tags=("signals",),
)
def get_ssf_configuration(_call: Call, postern: Postern) -> dict[str, Any]:
    """Get the shared signals configuration

    Returns the URLs and features of shared signals (SSF 1.0, section 7). Receivers configure themselves with this document. There are no
    endpoints for subjects: a stream covers everyone who uses the application as a confirmed member.
    """
    return dict(transmitter_metadata(postern.foundation.public_url))


@endpoint.post(CONFIGURATION_ENDPOINT, **_MAKING)
async def create_stream(call: Call[NewStream, None, None, SignalCaller], postern: Postern) -> StreamConfiguration:
    """Create a stream

    An owner must have turned shared signals on, and allowed the host. At most 5 streams per application.
    """
    body = call.body
    request = StreamRequest(**_delivery(body.delivery), events=body.events_requested or None, description=body.description, stated={})
    stream = await postern.federation.signal_streams.create(call.caller, request, call.request.sender.actor(call.caller.person))
    return _shown(stream, call.caller, postern)


@endpoint.get(CONFIGURATION_ENDPOINT, **_DECLARED)
async def get_streams(call: Call[None, StreamsQuery, None, SignalCaller], postern: Postern) -> _OneOrAll:
    """Get a stream, or list all streams

    Without `stream_id`, the response is a list of the application's streams, which can be empty.
    """
    if call.query.stream_id is None:
        return [_shown(one, call.caller, postern) for one in await postern.federation.signal_streams.list(call.caller)]
    return _shown(await postern.federation.signal_streams.get(call.caller, SignalStreamId(call.query.stream_id)), call.caller, postern)


@endpoint.patch(CONFIGURATION_ENDPOINT, **_DECLARED)
async def change_stream(call: Call[StreamUpdate, None, None, SignalCaller], postern: Postern) -> StreamConfiguration:
    """Change a stream

    Omitted fields keep their values. If a new URL has another scheme, host or port, the authorization header is removed, unless the request
    has a new header.
    """
    return await _changed(call, postern, replaces=False)


@endpoint.put(CONFIGURATION_ENDPOINT, **_DECLARED)
async def replace_stream(call: Call[StreamUpdate, None, None, SignalCaller], postern: Postern) -> StreamConfiguration:
    """Replace a stream

    Omitted fields are reset to the values of a new stream. Without `authorization_header`, pushes no longer have one.
    """
    if call.body.delivery is UNSET:
        raise BadRequest("delivery: specify how signals are delivered")
    return await _changed(call, postern, replaces=True)


@endpoint.delete(CONFIGURATION_ENDPOINT, **_WITHOUT_ANSWER)
async def delete_stream(call: Call[None, StreamQuery, None, SignalCaller], postern: Postern) -> NoBody:
    """Delete a stream

    Pending signals of the stream are deleted, too.
    """
    stream = SignalStreamId(call.query.stream_id)
    await postern.federation.signal_streams.delete(call.caller, stream, call.request.sender.actor(call.caller.person))
    return NO_BODY


@endpoint.get(STATUS_ENDPOINT, **_DECLARED)
async def get_stream_status(call: Call[None, StreamQuery, None, SignalCaller], postern: Postern) -> StreamStatusAnswer:
    """Get the status of a stream

    Returns the status and its reason.
    """
    return _status(await postern.federation.signal_streams.get(call.caller, SignalStreamId(call.query.stream_id)))


@endpoint.post(STATUS_ENDPOINT, **_DECLARED)
async def set_stream_status(call: Call[StreamStatusBody, None, None, SignalCaller], postern: Postern) -> StreamStatusAnswer:
    """Enable, pause or disable a stream

    While a stream is paused, at most 10 000 signals are kept, for at most 7 days. While a stream is disabled, signals are dropped.
    """
    body = call.body
    stream = await postern.federation.signal_streams.set_status(
        call.caller, SignalStreamId(body.stream_id), body.status, body.reason, call.request.sender.actor(call.caller.person)
    )
    return _status(stream)


@endpoint.post(VERIFICATION_ENDPOINT, **_WITHOUT_ANSWER)
async def verify_stream(call: Call[VerificationBody, None, None, SignalCaller], postern: Postern) -> NoBody:
    """Request the verification of a stream

    Postern sends a verification event within seconds. At most one request per stream in 10 seconds.
    """
    body = call.body
    actor = call.request.sender.actor(call.caller.person)
    await postern.federation.signal_streams.verify(call.caller, SignalStreamId(body.stream_id), body.state, actor)
    return NO_BODY


async def _changed(call: Call[StreamUpdate, None, None, SignalCaller], postern: Postern, *, replaces: bool) -> StreamConfiguration:
    body, caller = call.body, call.caller
    _require_known(body, caller, postern)
    stated = {name: value for name in ("events_supported", "events_delivered") if (value := getattr(body, name)) is not UNSET}
    request = StreamRequest(
        **({} if isinstance(body.delivery, UnsetType) else _delivery(body.delivery)),
        events=_said(body.events_requested),
        description=_said(body.description),
        stated=stated,
    )
    stream = await postern.federation.signal_streams.change(
        caller, SignalStreamId(body.stream_id), request, call.request.sender.actor(caller.person), replaces=replaces
    )
    return _shown(stream, caller, postern)


def _require_known(body: StreamUpdate, caller: SignalCaller, postern: Postern) -> None:
    if body.iss is not UNSET and body.iss != postern.foundation.public_url:
        raise BadRequest("iss: this is not what the stream has")
    if body.aud is not UNSET and body.aud not in (caller.client, [caller.client]):
        raise BadRequest("aud: this is not what the stream has")


def _said(value: Any) -> Any:
    return UNCHANGED if value is UNSET else value


def _delivery(delivery: StreamDelivery) -> Mapping[str, Any]:
    header: str | Unchanged = UNCHANGED if delivery.authorization_header is None else delivery.authorization_header
    return {"method": delivery.method, "endpoint": delivery.endpoint, "header": header}


def _shown(stream: SignalStream, caller: SignalCaller, postern: Postern) -> StreamConfiguration:
    settings, issuer = caller.allowed, postern.foundation.public_url
    return StreamConfiguration(
        stream_id=str(stream.id),
        iss=issuer,
        aud=caller.client,
        delivery=StreamDelivery(method=stream.method.urn, endpoint=stream.endpoint or poll_address(issuer, stream.id)),
        events_supported=[one.uri for one in settings.events],
        events_requested=[one.uri for one in stream.events],
        events_delivered=[one.uri for one in stream.delivered(settings)],
        min_verification_interval=int(VERIFICATION_PACE.total_seconds()),
        description=stream.description,
    )


def _status(stream: SignalStream) -> StreamStatusAnswer:
    return StreamStatusAnswer(stream_id=str(stream.id), status=stream.status.value, reason=stream.status_reason)
