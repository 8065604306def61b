"""Spans: what a process did for one request or job, and how long it took. Adapters find the open span in the context and add their own.

Nothing here knows where spans go. While tracing is off, and for a request that is not sampled, the context has no span: then each place
that would add a span costs one look at the context.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from enum import IntEnum
from types import TracebackType
from typing import Final, Protocol, Self

from core.domain.errors import Refusal, RetryLater
from core.domain.record.trace_contexts import TraceContext

Attributes = tuple[tuple[str, str | int], ...]
"""Names and values. They leave the house, so they tell neither secrets nor anything about a person. `adapters/traces/attributes.py` has all
names.
"""

MOST_SPANS: Final = 500
"""The most spans of one request or job. Spans beyond are left out, so that a long piece of work cannot fill the memory."""


class SpanKind(IntEnum):
    """The numbers are those of OpenTelemetry."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    CONSUMER = 5


class Trace:
    """A part of a trace: one request or job of this process. `id` has 32 hexadecimal digits, `now` returns nanoseconds since 1970."""

    __slots__ = ("id", "last", "left_out", "now", "spans")

    def __init__(self, trace: str, first: int, now: Callable[[], int]) -> None:
        self.id = trace
        self.last = first
        self.now = now
        self.spans: list[TraceSpan] = []
        self.left_out = 0


class TraceSpan:
    """A span, open for the length of a `with` block. A plain class with slots, since each request makes several."""

    __slots__ = ("_token", "attributes", "began", "ended", "error", "id", "kind", "link", "name", "own", "parent", "trace")

    def __init__(self, trace: Trace, kind: SpanKind, name: str, attributes: Attributes, parent: str) -> None:
        trace.last += 1
        self.id = f"{trace.last:016x}"
        self.trace = trace
        self.kind = kind
        self.name = name
        # What many spans share, and what differs from span to span.
        self.attributes = attributes
        self.own: Attributes = ()
        # The parent's id, or an empty text.
        self.parent = parent
        # The context of the work that caused this work, in a trace of its own.
        self.link: TraceContext | None = None
        # The kind of failure: the name of an exception's class, or a status.
        self.error = ""
        self.began = trace.now()
        self.ended = 0

    def __enter__(self) -> Self:
        self._token: Token[TraceSpan | None] = current_span.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        current_span.reset(self._token)
        if kind is not None and not self.error:
            self.error = failure_of(error)
        self.end()

    def end(self) -> None:
        trace = self.trace
        self.ended = trace.now()
        if len(trace.spans) < MOST_SPANS:
            trace.spans.append(self)
        else:
            trace.left_out += 1

    def child(self, kind: SpanKind, name: str, attributes: Attributes = ()) -> "TraceSpan":
        return TraceSpan(self.trace, kind, name, attributes, self.id)

    def travelled(self, kind: SpanKind, named: "Sequence[tuple[str, Attributes]]", began: int, error: BaseException | None = None) -> None:
        """Adds children that began and ended together, such as statements that share a round trip. A failure is that of the last."""
        made: TraceSpan | None = None
        for name, attributes in named:
            made = self.child(kind, name, attributes)
            made.began = began
            made.end()
        if made is not None:
            made.error = failure_of(error)

    def context(self) -> TraceContext:
        return TraceContext(self.trace.id, self.id, sampled=True)


current_span: Final[ContextVar[TraceSpan | None]] = ContextVar("current_span", default=None)
"""The innermost open span of this task. Trio copies it into child tasks."""


class NoSpan:
    """Stands for a span while nothing is traced."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass


NO_SPAN: Final = NoSpan()


class Traces(Protocol):
    """Decides which work is traced, and takes the spans of what has ended."""

    def begin(self, kind: SpanKind, name: str, *, trace: str = "", parent: TraceContext | None = None) -> TraceSpan | None:
        """The first span of a request or job; the caller enters it. `trace` is an id to use if there is no parent. A parent's decision
        counts. None when the work is not traced.
        """

    def finish(self, span: TraceSpan) -> None:
        """Takes all spans of the part that this ended span began. Never waits and never fails."""


@contextmanager
def traced(
    traces: Traces | None, kind: SpanKind, name: str, attributes: Attributes = (), *, own: Attributes = (), link: TraceContext | None = None
) -> Iterator[None]:
    """Traces the block as a piece of work of its own, such as a job."""
    span = None if traces is None else traces.begin(kind, name)
    if traces is None or span is None:
        yield
        return
    span.attributes, span.own, span.link = attributes, own, link
    try:
        with span:
            yield
    finally:
        traces.finish(span)


def failure_of(error: BaseException | None) -> str:
    """The class of the failure. Empty for a refusal, which is an answer and no failure. The text of an exception may quote a person's data,
    so it stays here.
    """
    if error is None or (isinstance(error, Refusal) and not isinstance(error, RetryLater)):
        return ""
    return type(error).__name__
