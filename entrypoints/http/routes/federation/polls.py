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
    """The stream."""


class SignalError(msgspec.Struct, frozen=True):
    """Why the application refuses a signal."""

    err: Annotated[_Text, example("invalid_key")]
    """The error's name (RFC 8935, section 2.4). Its beginning is kept."""
    description: _Text | None = None
    """More of it. It is not kept."""


class PollBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the application wants, and what it has received."""

    max_events: Annotated[int, msgspec.Meta(ge=0), example(20)] | None = None
    """How many signals the answer may have, at most 100. With 0 the application only acknowledges."""
    return_immediately: bool = False
    """Whether the answer comes at once, even if nothing waits. Otherwise it comes with the next signal, after 30 seconds at the latest."""
    ack: Annotated[Sequence[_Jti], msgspec.Meta(max_length=MOST_ANSWERS), example([_SIGNAL])] = ()
    """The `jti` of signals that the application has received. They do not come again. A token with `ssf.read` alone may name none."""
    set_errs: Annotated[Mapping[_Jti, SignalError], msgspec.Meta(max_length=MOST_ANSWERS), example({_SIGNAL: {"err": "invalid_key"}})] = {}
    """The signals that the application refuses, by their `jti`. They do not come again. A token with `ssf.read` alone may name none."""


class PollAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What waits for the stream, the oldest first. What is not acknowledged comes again."""

    sets: Annotated[Mapping[str, str], example({_SIGNAL: "eyJ0eXAiOiJzZWNldmVudCtqd3QifQ.e30.c2ln"})]
    """Security event tokens by their `jti`."""
    more_available: Annotated[bool, example(False)]
    """Whether more of them wait."""


@endpoint.post(
    POLL_ENDPOINT + "/{stream_id}",
    caller=SIGNAL_RECEIVER,
    limit=UNLIMITED,
    errors=OAUTH,
    refuses=(NotFound,),
    tags=("signals",),
)
async def poll_stream(call: Call[PollBody, None, PollPath, SignalCaller], postern: Postern) -> Streamed[PollAnswer]:
    """Fetch the signals of a stream, and acknowledge earlier ones (RFC 8936)

    One request of a stream waits, and 20 of an organization: the next one is answered at once. `ack` and `setErrs` need `ssf.manage` where
    the token has scopes of signals: with `ssf.read` alone they are refused (403 `insufficient_scope`).
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
