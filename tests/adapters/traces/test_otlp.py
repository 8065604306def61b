"""Spans in OTLP's JSON form, and a collector that is called with them."""

import json
from datetime import timedelta
from typing import Any

import pytest
import trio

from adapters import traces as collector_module
from adapters.outbound.client import PlainClient
from adapters.outbound.dialer import EVERYWHERE, Dialer, SystemNames
from adapters.traces import ATTRIBUTE_NAMES, OF_RESOURCE, OtlpCollector, OtlpEncoding, encoded
from core.domain.errors import NotFound, Unavailable
from core.domain.outbound import destination
from core.domain.record.stories import TraceContext
from core.domain.secrets import Secret
from ports.record import MOST_SPANS, Collected, NotCollected, SpanKind, Trace, TraceSpan, current_span, traced
from tests.adapters.traces.collecting import ToldSpan, collecting, scripted, told
from tests.adapters.traces.kept import KeptTraces
from tests.receiver import CRUMBS, answering, hanging_up, receiving, trickling

ENCODING = OtlpEncoding("1.2.3")
PARENT = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", sampled=True)


def work(parts: int = 1) -> KeptTraces:
    """A piece of work with so many parts."""
    kept = KeptTraces()
    with traced(kept, SpanKind.CONSUMER, "work"):
        for number in range(parts):
            inner = current_span.get()
            assert inner is not None
            with inner.child(SpanKind.INTERNAL, f"part {number}"):
                pass
    return kept


def texts(kept: KeptTraces) -> list[str]:
    return [text for text, _, _ in kept.told]


def read(*said: str) -> list[dict[str, Any]]:
    message = json.loads(ENCODING.body(said))
    found: list[dict[str, Any]] = message["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return found


def sole(span: TraceSpan) -> ToldSpan:
    (found,) = read(encoded([span]))
    return told(found)


def test_a_span_is_told_with_all_that_it_has() -> None:
    span = TraceSpan(
        Trace("1" * 32, "0" * 12, iter((1_000, 3_000)).__next__), SpanKind.CLIENT, 'odd "name" \\ ü', (("server.port", 443),), "a" * 16
    )
    span.own = (("postern.request_id", "one"), ("postern.hash.wait_us", 12))
    span.link = PARENT
    with pytest.raises(ValueError, match="secret"), span:
        raise ValueError("secret")
    assert sole(span) == ToldSpan(
        "1" * 32,
        "0000000000000001",
        "a" * 16,
        'odd "name" \\ ü',
        3,
        1_000,
        3_000,
        {"server.port": 443, "error.type": "ValueError", "postern.request_id": "one", "postern.hash.wait_us": 12},
        failed=True,
        links=[(PARENT.trace, PARENT.span)],
    )


@pytest.mark.parametrize("attributes", [(), (("http.route", "/a"),)])
@pytest.mark.parametrize("own", [(), (("postern.job.attempt", 1),), (("e-mail", "ada@example.org"),)])
def test_attributes_that_are_not_listed_stay_in_the_house(attributes: Any, own: Any) -> None:
    span = TraceSpan(Trace("1" * 32, "0" * 12, lambda: 1), SpanKind.CLIENT, "a", (*attributes, ("user.email", "ada@example.org")), "")
    span.own = own
    span.end()
    assert sole(span).attributes == {name: value for name, value in (*attributes, *own) if name in ATTRIBUTE_NAMES}
    assert "ada@" not in encoded([span])


def test_these_attributes_and_no_others_may_leave() -> None:
    """A name that is added here is a decision: is it free of secrets, and of what belongs to a person?"""
    assert sorted(ATTRIBUTE_NAMES) == [
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
    ]


def test_a_refusal_is_no_failure_of_ours() -> None:
    for error, name in ((NotFound(), ""), (Unavailable(retry_after=1), "Unavailable"), (KeyError("ada@example.org"), "KeyError")):
        span = TraceSpan(Trace("1" * 32, "0" * 12, lambda: 1), SpanKind.INTERNAL, "a", (), "")
        with pytest.raises(type(error)), span:
            raise error
        assert (sole(span).failed, sole(span).attributes) == (bool(name), {"error.type": name} if name else {})


def test_spans_of_a_long_piece_of_work_are_left_out_but_for_the_whole() -> None:
    kept = work(3 * MOST_SPANS)
    ((text, count, left_out),) = kept.told
    spans = [told(one) for one in read(text)]
    assert (len(spans), count, left_out) == (MOST_SPANS, MOST_SPANS, 2 * MOST_SPANS + 1)
    assert [spans[0].name, spans[-2].name, spans[-1].name] == ["part 0", f"part {MOST_SPANS - 2}", "work"]
    assert len({span.id for span in spans}) == MOST_SPANS


def test_a_span_that_ends_after_its_request_is_nobodys() -> None:
    kept = work(1)
    (spans,) = kept.ended
    trace = spans[0].trace
    TraceSpan(trace, SpanKind.INTERNAL, "late", (), "").end()
    assert [span.name for span in spans] == ["part 0", "work"]
    assert [told(one).name for one in read(*texts(kept), *texts(work(2)))] == ["part 0", "work", "part 0", "part 1", "work"]


def test_a_share_of_the_work_is_traced_and_a_parent_decides_for_its_children() -> None:
    def begun(share: float, parent: TraceContext | None = None) -> list[TraceSpan]:
        traces = KeptTraces(share)
        return [span for _ in range(1000) if (span := traces.begin(SpanKind.SERVER, "GET", parent=parent)) is not None]

    assert len(begun(1)) == 1000
    assert begun(0) == []
    assert 300 < len(begun(0.5)) < 700
    (one, *_) = joined = begun(0, PARENT)
    assert (len(joined), one.trace.id, one.parent) == (1000, PARENT.trace, PARENT.span)
    assert begun(1, TraceContext(PARENT.trace, PARENT.span, sampled=False)) == []
    several = begun(1)
    assert len({span.trace.id for span in several}) == len({span.id for span in several}) == 1000
    assert all(len(span.trace.id) == 32 and len(span.id) == 16 for span in several)


async def test_a_collector_takes_the_spans_with_the_operators_headers() -> None:
    async with collecting() as collector:
        client = PlainClient(Dialer(SystemNames(), EVERYWHERE))
        ours = OtlpCollector(client, destination(collector.url), (("authorization", Secret("Bearer abc")),), ENCODING)
        assert await ours.collect(texts(work(2)), 3) == Collected(0)
        await client.aclose()
    (call,) = collector.receiver.calls
    assert call.headers["authorization"] == "Bearer abc"
    assert [span.name for span in collector.spans] == ["part 0", "part 1", "work"]
    assert set(collector.resource) == OF_RESOURCE
    assert {name: value for name, value in collector.resource.items() if name != "service.instance.id"} == {
        "service.name": "postern",
        "service.version": "1.2.3",
    }


async def test_answers_of_a_collector_are_understood_and_nonsense_is_bounded() -> None:
    async with receiving(answering(200)) as receiver:
        client = PlainClient(Dialer(SystemNames(), EVERYWHERE))
        ours = OtlpCollector(client, destination(f"http://127.0.0.1:{receiver.port}/v1/traces"), (), ENCODING)
        spans = texts(work(1))
        for body, rejected in (
            (b"", 0),
            (b"{}", 0),
            (b'{"partialSuccess":null}', 0),
            (b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}', 1),
            (b'{"partialSuccess":{"rejectedSpans":1}}', 1),
            (b'{"partialSuccess":{"rejectedSpans":"999999999999"}}', 2),
            (b'{"partialSuccess":{"rejectedSpans":-5}}', 0),
            (b'{"partialSuccess":{"rejectedSpans":"many"}}', 0),
            (b'{"partialSuccess":{"rejectedSpans":{}}}', 0),
            (b"\xff\xfe", 0),
            (b"[" * 60_000, 0),
            (b"x" * 200_000, 0),
        ):
            receiver.answer = answering(200, body)
            assert await ours.collect(spans, 2) == Collected(rejected), body[:80]
        for status, passes in ((429, True), (502, True), (503, True), (504, True), (400, False), (401, False), (500, False), (302, False)):
            receiver.answer = answering(status, b"no", "retry-after: 7")
            with pytest.raises(NotCollected) as refused:
                await ours.collect(spans, 2)
            assert (refused.value.passes, refused.value.retry_after, refused.value.reason) == (passes, "7", f"status {status}")
        receiver.answer = hanging_up
        with pytest.raises(NotCollected, match=r"connection_failed|malformed_answer") as refused:
            await ours.collect(spans, 2)
        assert refused.value.passes
        await client.aclose()


@pytest.mark.parametrize("answer", [trickling, *CRUMBS.values()], ids=["trickling", *CRUMBS])
async def test_a_collector_that_never_ends_its_answer_is_left(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_module, "_TIMEOUT", timedelta(seconds=0.3))
    async with receiving(scripted(answer)) as receiver:
        client = PlainClient(Dialer(SystemNames(), EVERYWHERE))
        with pytest.raises(NotCollected):
            await OtlpCollector(client, destination(f"http://127.0.0.1:{receiver.port}/"), (), ENCODING).collect(texts(work()), 2)
        await client.aclose()


async def test_calls_of_the_exporter_are_no_spans() -> None:
    """The recorder's task has no open span, so its calls make none. A call inside a span makes one."""
    async with collecting() as collector:
        client = PlainClient(Dialer(SystemNames(), EVERYWHERE))
        ours = OtlpCollector(client, destination(collector.url), (), ENCODING)
        kept = KeptTraces()
        await ours.collect(texts(work()), 2)
        with traced(kept, SpanKind.CONSUMER, "work"):
            await ours.collect(texts(work()), 2)
            await trio.lowlevel.checkpoint()
        await client.aclose()
    post, whole = kept.ended[0]
    assert (post.name, whole.name, post.parent) == ("POST", "work", whole.id)
    assert dict(post.attributes) == {
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": collector.receiver.port,
        "http.response.status_code": 200,
    }
