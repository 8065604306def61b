"""Exports traces to an OpenTelemetry collector: which requests and jobs have spans, and which attributes these may carry."""

import os
import random
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from core.domain.outbound import OutboundDestination
from core.domain.record.stories import TraceContext
from core.domain.secrets import Secret
from ports.outbound import Outbound, OutboundAnswer, OutboundFailed, OutboundRequest
from ports.record import Attributes, Collected, NotCollected, SpanKind, Trace, TraceSpan

# Every attribute that a span may export. The encoder leaves out all others. Left out on purpose: `url.path` and `url.query` (a link may
# hold a token, a path the name of a user), `url.full`, `client.address`, `user_agent.original`, `enduser.id`, `db.query.text`,
# `exception.message` and `exception.stacktrace`. `http.route` has the template of the path, and `postern.request_id` leads to the line of
# the log that has the rest.
ATTRIBUTE_NAMES: Final = frozenset(
    {
        "db.query.summary",
        "db.system.name",
        "error.type",
        "http.request.method",
        "http.response.status_code",
        "http.route",
        "messaging.destination.name",
        "postern.delivery.attempt",
        "postern.delivery.id",
        "postern.hash.wait_us",
        "postern.job.attempt",
        "postern.job.id",
        "postern.request_id",
        "server.address",
        "server.port",
    }
)
"""Names of OpenTelemetry's semantic conventions; ours begin with `postern.`."""

OF_RESOURCE: Final = frozenset({"service.instance.id", "service.name", "service.version"})
"""The attributes of the process itself."""


_FAILED: Final = ',"status":{"code":2}'
_SCOPE: Final = "postern"
_encode: Final = msgspec.json.Encoder().encode


class OtlpEncoding:
    """Encodes spans in the JSON form of OpenTelemetry's protocol (OTLP/HTTP): IDs in hexadecimal digits, times as texts of nanoseconds. A
    span is put together from texts: what many spans share (name, kind, attributes) is encoded once and stored. Encoding an object for each
    span takes three times as long.

    The beginning and the end of each body, with the attributes of this process.
    """

    def __init__(self, version: str) -> None:
        of_process = {
            "service.name": "postern",
            "service.version": version,
            "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
        }
        resource = ",".join(_attribute(key, value) for key, value in of_process.items())
        scope = {"name": _SCOPE, "version": version}
        self._head: Final = (
            f'{{"resourceSpans":[{{"resource":{{"attributes":[{resource}]}},"scopeSpans":[{{"scope":{_json(scope)},"spans":['
        )
        self._tail: Final = "]}]}]}"

    def body(self, texts: Iterable[str]) -> bytes:
        """`texts` are from `encoded`, and none is empty."""
        return f"{self._head}{','.join(texts)}{self._tail}".encode()


def encoded(spans: Sequence[TraceSpan]) -> str:
    """The spans of one request or job. The most that there may be take less than a millisecond."""
    return ",".join([_span(one) for one in spans])


def _span(span: TraceSpan) -> str:
    parent = f'","parentSpanId":"{span.parent}' if span.parent else ""
    shared = _shared(span.kind, span.name, span.attributes, span.error)
    end = "]"
    if span.own:
        own = ",".join([_attribute(key, value) for key, value in span.own if key in ATTRIBUTE_NAMES])
        end = f",{own}]" if own and shared[-1] != "[" else f"{own}]"
    if span.error or span.link is not None:
        end += _more(span)
    return (
        f'{{"traceId":"{span.trace.id}","spanId":"{span.id}{parent}","startTimeUnixNano":"{span.began}","endTimeUnixNano":"{span.ended}",'
        f"{shared}{end}}}"
    )


def _attribute(key: str, value: str | int) -> str:
    if isinstance(value, int):
        return f'{{"key":"{key}","value":{{"intValue":"{value}"}}}}'
    return f'{{"key":"{key}","value":{{"stringValue":{_json(value)}}}}}'


@lru_cache(maxsize=4096)
def _shared(kind: SpanKind, name: str, attributes: Attributes, error: str) -> str:
    """Ends within the list of attributes."""
    given = (*attributes, ("error.type", error)) if error else attributes
    said = ",".join([_attribute(key, value) for key, value in given if key in ATTRIBUTE_NAMES])
    return f'"name":{_json(name)},"kind":{kind.value},"attributes":[{said}'


def _more(span: TraceSpan) -> str:
    link = span.link
    links = "" if link is None else f',"links":[{{"traceId":"{link.trace}","spanId":"{link.span}"}}]'
    return f"{links}{_FAILED if span.error else ''}"


def _json(value: Any) -> str:
    return _encode(value).decode()


_TIMEOUT: Final = timedelta(seconds=10)
_PASSING: Final = frozenset({429, 502, 503, 504})


class _PartialSuccess(msgspec.Struct):
    # A 64-bit number, which is a text in the JSON form. Some collectors send a number all the same.
    rejected: str | int = msgspec.field(default=0, name="rejectedSpans")


class _Answer(msgspec.Struct):
    partial: _PartialSuccess | None = msgspec.field(default=None, name="partialSuccess")


class OtlpCollector:
    """Implements `ports.record.SpanCollector`."""

    def __init__(self, outbound: Outbound, to: OutboundDestination, headers: Sequence[tuple[str, Secret]], encoding: OtlpEncoding) -> None:
        self._outbound = outbound
        self._to = to
        self._headers = {"content-type": "application/json", "user-agent": "Postern"}
        self._secret_headers = headers
        self._encoding = encoding

    async def collect(self, texts: Sequence[str], count: int) -> Collected:
        headers = {**self._headers, **{name: value.reveal() for name, value in self._secret_headers}}
        request = OutboundRequest(self._to, self._encoding.body(texts), headers)
        try:
            answer = await self._outbound.post(request, _TIMEOUT)
        except OutboundFailed as failed:
            raise NotCollected(failed.failure.value, passes=True) from None
        if 200 <= answer.status < 300:
            return Collected(min(count, _rejected(answer)))
        passes = answer.status in _PASSING
        raise NotCollected(f"status {answer.status}", passes=passes, retry_after=answer.headers.get("retry-after"))


def _rejected(answer: OutboundAnswer) -> int:
    """How many spans the collector has refused, while it took the rest. 0 for an answer that is no such message."""
    try:
        partial = msgspec.json.decode(answer.body, type=_Answer).partial
        return 0 if partial is None else max(0, int(partial.rejected))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        return 0


_PREFIX_BITS: Final = 48
_TRACE_BITS: Final = 128


class SampledTraces:
    """Implements `ports.record.Traces`. `share` is the share of work that is traced, from 0 to 1; a parent has decided already.

    Spans are encoded when their request or job has ended: a text waits for less memory than objects do, and costs the garbage collector
    nothing. `take` gets the text, the number of its spans, and how many more were left out.
    """

    def __init__(self, share: float, take: Callable[[str, int, int], None], now: Callable[[], int] = time.time_ns) -> None:
        self._share = share
        self._take = take
        self._now = now

    def begin(self, kind: SpanKind, name: str, *, work: str = "", parent: TraceContext | None = None) -> TraceSpan | None:
        share = self._share
        # Neither ids nor the draw are secrets: whoever guesses them learns nothing and gains nothing.
        if not (share >= 1 or random.random() < share if parent is None else parent.sampled):  # noqa: S311
            return None
        prefix = f"{random.getrandbits(_PREFIX_BITS):012x}"
        if parent is not None:
            return TraceSpan(Trace(parent.trace, prefix, self._now), kind, name, (), parent.span)
        trace = work.replace("-", "") or f"{random.getrandbits(_TRACE_BITS) | 1:032x}"
        return TraceSpan(Trace(trace, prefix, self._now), kind, name, (), "")

    def finish(self, span: TraceSpan) -> None:
        # A task that outlives its request may still add spans; nobody reads those.
        trace = span.trace
        spans, trace.spans = trace.spans, []
        if trace.left_out and spans[-1] is not span:
            spans[-1] = span
        self._take(encoded(spans), len(spans), trace.left_out)
