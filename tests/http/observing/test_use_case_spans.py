"""Stand-ins for use cases: they are what they stand for, and open a span only within one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from core.frozen import Frozen
from entrypoints.assembly.traced import TracedUseCase, with_spans
from entrypoints.bootstrap import Postern
from entrypoints.settings import SettingsError
from ports.record import SpanKind, current_span, traced
from tests.adapters.traces.kept import KeptTraces
from tests.conftest import CapturedLog
from tests.http.conftest import postern_on
from tests.http.signing_in import unlimited
from tests.patience import PATIENCE


class Greeting(Frozen):
    word: str

    async def greet(self, name: str, *, loudly: bool = False) -> str:
        await trio.lowlevel.checkpoint()
        if not name:
            raise ValueError("nobody")
        return f"{self.word} {name}{'!' if loudly else ''}"

    def said(self) -> str:
        return self.word


Greeting.__module__ = "core.usecases.greeting"


class Family(Frozen):
    greeting: Greeting
    number: int


async def test_a_stand_in_does_what_the_use_case_does() -> None:
    family = with_spans(Family(Greeting("hello"), 7))
    assert isinstance(family.greeting, TracedUseCase)
    assert (family.number, family.greeting.word, family.greeting.said()) == (7, "hello", "hello")
    # Outside of a span there is nothing between the caller and the use case.
    assert await family.greeting.greet("Ada", loudly=True) == "hello Ada!"
    kept = KeptTraces()
    with traced(kept, SpanKind.CONSUMER, "work"):
        assert await family.greeting.greet("Ada") == "hello Ada"
        with pytest.raises(ValueError, match="nobody"):
            await family.greeting.greet("")
        assert family.greeting.said() == "hello"
    assert [(span.name, span.error) for span in kept.ended[0]] == [
        ("Greeting.greet", ""),
        ("Greeting.greet", "ValueError"),
        ("work", ""),
    ]
    assert current_span.get() is None


async def test_spans_of_child_tasks_have_the_span_of_their_parent_task() -> None:
    greeting, kept = TracedUseCase(Greeting("hello")), KeptTraces()
    with traced(kept, SpanKind.CONSUMER, "work"):
        async with trio.open_nursery() as nursery:
            for name in ("Ada", "Grace"):
                nursery.start_soon(greeting.greet, name)
    *children, whole = kept.ended[0]
    assert [span.parent for span in children] == [whole.id] * 2


@pytest.fixture
async def without_collector(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    # Nothing listens there.
    settings = {"POSTERN_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces", "POSTERN_TRACES_SAMPLE": "1"}
    async with postern_on(database_url, tmp_path, settings) as postern:
        yield postern


async def test_requests_go_on_while_the_collector_is_away(without_collector: Postern, log: CapturedLog) -> None:
    tracing, client = without_collector.foundation.tracing, unlimited(without_collector)
    assert tracing is not None
    tracing.recorder._interval = 0.01
    tracing.recorder._most = 50
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: tracing.recorder.run(task_status=task_status))
        with trio.fail_after(PATIENCE):
            while not log.events("spans_not_collected"):
                assert (await client.get("/api/user")).status == 401
                await trio.sleep(0.01)
        for _ in range(100):
            assert (await client.get("/api/user")).status == 401
        assert tracing.recorder._count <= 50
        nursery.cancel_scope.cancel()
    page = (await client.get("/metrics")).body.decode()
    counts = {outcome: f'sso_spans_total{{outcome="{outcome}"}} 0.0' not in page for outcome in ("sent", "dropped", "failed")}
    assert counts == {"sent": False, "dropped": True, "failed": True}


async def test_an_endpoint_that_is_no_address_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="POSTERN_TRACES_ENDPOINT must"):
        async with postern_on("postgresql://nobody@127.0.0.1:1/nothing", tmp_path, {"POSTERN_TRACES_ENDPOINT": "http://127.1/v1/traces"}):
            pass
