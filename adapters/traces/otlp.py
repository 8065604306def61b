"""Spans in the JSON form of OpenTelemetry's protocol (OTLP/HTTP): ids in hexadecimal digits, times as texts of nanoseconds.

A span is put together from texts: what many spans share (name, kind, attributes) is encoded once and kept. Encoding an object for each span
takes three times as long.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from adapters.traces.attributes import NAMES
from ports.record.spans import Attributes, SpanKind, TraceSpan

SPANS_AT_ONCE: Final = 100
"""So many spans take less than half a millisecond to encode."""
_FAILED: Final = ',"status":{"code":2}'
_SCOPE: Final = "postern"
_encode: Final = msgspec.json.Encoder().encode


class OtlpEncoding:
    """The beginning and the end of each body, with the attributes of this process."""

    def __init__(self, version: str) -> None:
        resource = [
            _attribute("service.name", "postern"),
            _attribute("service.version", version),
            _attribute("service.instance.id", f"{socket.gethostname()}:{os.getpid()}"),
        ]
        scope = {"name": _SCOPE, "version": version}
        self._head: Final = (
            f'{{"resourceSpans":[{{"resource":{{"attributes":{_json(resource)}}},"scopeSpans":[{{"scope":{_json(scope)},"spans":['
        )
        self._tail: Final = "]}]}]}"

    def parts(self, spans: Sequence[TraceSpan]) -> Iterator[str]:
        """The spans in parts of the body, so that other tasks can have a turn between two parts."""
        for start in range(0, len(spans), SPANS_AT_ONCE):
            yield ",".join([_span(one) for one in spans[start : start + SPANS_AT_ONCE]])

    def body(self, parts: Sequence[str]) -> bytes:
        return f"{self._head}{','.join(parts)}{self._tail}".encode()


def _span(span: TraceSpan) -> str:
    parent = f'"parentSpanId":"{span.parent}",' if span.parent else ""
    shared = _shared(span.kind, span.name, span.attributes, span.error)
    own = _json(_attributes(span.own))[1:-1] if span.own else ""
    comma = "," if own and shared[-1] != "[" else ""
    more = "" if not span.error and span.link is None else _more(span)
    return (
        f'{{"traceId":"{span.trace.id}","spanId":"{span.id}",{parent}"startTimeUnixNano":"{span.began}","endTimeUnixNano":"{span.ended}",'
        f"{shared}{comma}{own}]{more}}}"
    )


@lru_cache(maxsize=4096)
def _shared(kind: SpanKind, name: str, attributes: Attributes, error: str) -> str:
    """Ends within the list of attributes."""
    given = _attributes((*attributes, ("error.type", error)) if error else attributes)
    return f'"name":{_json(name)},"kind":{kind.value},"attributes":{_json(given)[:-1]}'


def _attributes(given: Attributes) -> list[dict[str, Any]]:
    return [_attribute(key, value) for key, value in given if key in NAMES]


def _more(span: TraceSpan) -> str:
    link = span.link
    links = "" if link is None else f',"links":[{{"traceId":"{link.trace}","spanId":"{link.span}"}}]'
    return f"{links}{_FAILED if span.error else ''}"


def _attribute(key: str, value: str | int) -> dict[str, Any]:
    # 64-bit numbers are texts in the JSON form.
    return {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}


def _json(value: Any) -> str:
    return _encode(value).decode()
