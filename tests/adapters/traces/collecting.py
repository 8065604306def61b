"""A collector on loopback: it takes OTLP/HTTP in JSON, and checks that every field is one of the protocol's."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import trio

from tests.patience import PATIENCE
from tests.receiver import Answer, Call, Receiver, answering, receiving

PATH = "/v1/traces"
# The fields of opentelemetry/proto/trace/v1/trace.proto that we use, in the names of the JSON form. Those with True must be there.
SPAN_FIELDS = {
    "traceId": True,
    "spanId": True,
    "parentSpanId": False,
    "name": True,
    "kind": True,
    "startTimeUnixNano": True,
    "endTimeUnixNano": True,
    "attributes": True,
    "links": False,
    "status": False,
}


@dataclass(frozen=True, slots=True)
class ToldSpan:
    """A span as the collector got it."""

    trace: str
    id: str
    parent: str
    name: str
    kind: int
    began: int
    ended: int
    attributes: Mapping[str, str | int]
    failed: bool
    links: list[tuple[str, str]]


@dataclass(slots=True)
class Collector:
    receiver: Receiver
    spans: list[ToldSpan] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    resource: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.receiver.port}{PATH}"

    def take(self, call: Call) -> None:
        assert (call.method, call.target, call.headers["content-type"]) == ("POST", PATH, "application/json")
        self.bodies.append(call.body)
        (of_resource,) = only(json.loads(call.body), "resourceSpans")
        assert set(of_resource) == {"resource", "scopeSpans"}
        self.resource = attributes_of(only(of_resource["resource"], "attributes"))
        (of_scope,) = of_resource["scopeSpans"]
        assert set(of_scope) == {"scope", "spans"}
        assert set(of_scope["scope"]) == {"name", "version"}
        self.spans += [told(span) for span in of_scope["spans"]]

    async def until(self, *names: str) -> Self:
        """Waits for spans of all these names."""
        with trio.fail_after(PATIENCE):
            while not set(names) <= {span.name for span in self.spans}:
                await trio.sleep(0.01)
        return self

    def named(self, name: str) -> ToldSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def children(self, parent: ToldSpan) -> list[ToldSpan]:
        return [span for span in self.spans if (span.trace, span.parent) == (parent.trace, parent.id)]

    def text(self) -> str:
        return b"\n".join(self.bodies).decode()


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    takes = answering(200, b'{"partialSuccess":{}}', "content-type: application/json")
    async with receiving(takes) as receiver:
        collector = Collector(receiver)

        async def answer(stream: trio.abc.Stream, call: Call) -> bool:
            collector.take(call)
            return await takes(stream, call)

        receiver.answer = answer
        yield collector


def scripted(*answers: Answer) -> Answer:
    """Gives one answer after the other, and the last again and again."""
    waiting = [*answers]

    async def answer(stream: trio.abc.Stream, call: Call) -> bool:
        return await (waiting.pop(0) if len(waiting) > 1 else waiting[0])(stream, call)

    return answer


def told(span: dict[str, Any]) -> ToldSpan:
    assert set(span) <= set(SPAN_FIELDS), span
    assert {name for name, must in SPAN_FIELDS.items() if must} <= set(span), span
    for name, digits in (("traceId", 32), ("spanId", 16), ("parentSpanId", 16)):
        assert name not in span or re.fullmatch(f"(?!0+$)[0-9a-f]{{{digits}}}", span[name]), span
    began, ended = (number(span[name]) for name in ("startTimeUnixNano", "endTimeUnixNano"))
    assert began <= ended
    assert span["kind"] in range(1, 6)
    assert span.get("status", {"code": 2}) == {"code": 2}
    links = [(link["traceId"], link["spanId"]) for link in span.get("links", []) if set(link) == {"traceId", "spanId"}]
    assert len(links) == len(span.get("links", []))
    return ToldSpan(
        span["traceId"],
        span["spanId"],
        span.get("parentSpanId", ""),
        span["name"],
        span["kind"],
        began,
        ended,
        attributes_of(span["attributes"]),
        "status" in span,
        links,
    )


def only(message: dict[str, Any], name: str) -> Any:
    assert set(message) == {name}
    return message[name]


def attributes_of(given: list[dict[str, Any]]) -> Mapping[str, str | int]:
    attributes: dict[str, str | int] = {}
    for one in given:
        assert set(one) == {"key", "value"}
        ((kind, value),) = one["value"].items()
        assert one["key"] not in attributes
        assert kind in {"stringValue", "intValue"}
        attributes[one["key"]] = number(value) if kind == "intValue" else value
    return attributes


def number(text: Any) -> int:
    """64-bit numbers are texts in the JSON form."""
    assert isinstance(text, str)
    return int(text)
