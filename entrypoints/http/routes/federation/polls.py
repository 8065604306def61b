"""Polls of streams of signals (RFC 8936)."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import NotFound
from core.domain.federation.signals import MOST_ANSWERS, POLL_ENDPOINT, SignalCaller
from core.domain.identifiers import SignalStreamId
from core.usecases.federation.signal_polls import Polled, SignalPoll
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Streamed
from entrypoints.http.machinery.callers import SIGNAL_RECEIVER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.errors import OAUTH
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import UNLIMITED

_SIGNAL: Final = "0199d3a0-0000-7000-8000-000000000009"
_Jti = Annotated[str, msgspec.Meta(max_length=100)]
_Text = Annotated[str, msgspec.Meta(max_length=1_000)]
_encode: Final = msgspec.json.Encoder().encode


class PollPath(msgspec.Struct, frozen=True):
    stream_id: UUID
    """The stream's ID."""


class SignalError(msgspec.Struct, frozen=True):
    """Why the application rejected a signal."""

    err: Annotated[_Text, example("invalid_key")]
    """The error code (RFC 8935, section 2.4). Postern stores its beginning."""
    description: _Text | None = None
    """A description of the error. Postern does not store it."""


class PollBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The signals to fetch, and the signals to acknowledge."""

    max_events: Annotated[int, msgspec.Meta(ge=0), example(20)] | None = None
    """The maximum number of signals to return, at most 100. With 0, the request only acknowledges signals."""
    return_immediately: bool = False
    """Whether to respond at once if there are no signals. Otherwise, the response waits for the next signal, at most 30 seconds."""
    ack: Annotated[Sequence[_Jti], msgspec.Meta(max_length=MOST_ANSWERS), example([_SIGNAL])] = ()
    """The `jti` values of the signals that the application received. They are not sent again. With a token that has only `ssf.read`, send
    none.
    """
    set_errs: Annotated[Mapping[_Jti, SignalError], msgspec.Meta(max_length=MOST_ANSWERS), example({_SIGNAL: {"err": "invalid_key"}})] = {}
    """The signals that the application rejects, by `jti`. They are not sent again. With a token that has only `ssf.read`, send none."""


class PollAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The pending signals of the stream, oldest first. Signals that are not acknowledged are sent again."""

    sets: Annotated[Mapping[str, str], example({_SIGNAL: "eyJ0eXAiOiJzZWNldmVudCtqd3QifQ.e30.c2ln"})]
    """The security event tokens, by `jti`."""
    more_available: Annotated[bool, example(False)]
    """Whether more signals are pending."""


@endpoint.post(
    POLL_ENDPOINT + "/{stream_id}",
    caller=SIGNAL_RECEIVER,
    limit=UNLIMITED,
    errors=OAUTH,
    refuses=(NotFound,),
    tags=("signals",),
)
async def poll_stream(call: Call[PollBody, None, PollPath, SignalCaller], postern: Postern) -> Streamed[PollAnswer]:
    """Poll the signals of a stream (RFC 8936)

    Returns pending signals, and acknowledges earlier ones. At most one request per stream, and 20 per organization, can wait for signals.
    Further requests get a response at once. If the token has scopes of shared signals, `ack` and `setErrs` need `ssf.manage`. With
    `ssf.read` alone, they are rejected with 403 `insufficient_scope`.
    """
    body = call.body
    stream = SignalStreamId(call.path.stream_id)
    refused = {jti: error.err for jti, error in body.set_errs.items()}
    poll = SignalPoll(received=body.ack, refused=refused, most=body.max_events)
    polled = await postern.federation.polled_streams.poll(call.caller, stream, poll)
    if polled.signals or body.return_immediately or body.max_events == 0:
        return Streamed(_at_once(polled))
    return Streamed(_waited_for(postern, call.caller, stream, poll))


async def _at_once(polled: Polled) -> AsyncGenerator[bytes, None]:
    yield _shown(polled)


async def _waited_for(postern: Postern, caller: SignalCaller, stream: SignalStreamId, poll: SignalPoll) -> AsyncGenerator[bytes, None]:
    """While it waits, the request is not at work: it keeps no place from others."""
    yield _shown(await postern.federation.polled_streams.wait(caller, stream, poll))


def _shown(polled: Polled) -> bytes:
    return _encode(PollAnswer(sets=polled.signals, more_available=polled.more))
