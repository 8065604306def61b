"""Spans in the JSON form of OpenTelemetry's protocol (OTLP/HTTP): ids in hexadecimal digits, times as texts of nanoseconds.

A span is put together from texts: what many spans share (name, kind, attributes) is encoded once and kept. Encoding an object for each span
takes three times as long.
"""

import os
import socket
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from adapters.traces.attributes import NAMES
from ports.record import Attributes, SpanKind, TraceSpan

_FAILED: Final = ',"status":{"code":2}'
_SCOPE: Final = "postern"
_encode: Final = msgspec.json.Encoder().encode


class OtlpEncoding:
    """The beginning and the end of each body, with the attributes of this process."""

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
        own = ",".join([_attribute(key, value) for key, value in span.own if key in NAMES])
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
    said = ",".join([_attribute(key, value) for key, value in given if key in NAMES])
    return f'"name":{_json(name)},"kind":{kind.value},"attributes":[{said}'


def _more(span: TraceSpan) -> str:
    link = span.link
    links = "" if link is None else f',"links":[{{"traceId":"{link.trace}","spanId":"{link.span}"}}]'
    return f"{links}{_FAILED if span.error else ''}"


def _json(value: Any) -> str:
    return _encode(value).decode()
