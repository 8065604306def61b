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

from core.domain.causes import causing_request
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

    # The hash of an enumeration is a call of Python's own code, and every span is looked up by its kind.
    __hash__ = int.__hash__


_NUMBERS: Final = tuple(f"{number:04x}" for number in range(1, MOST_SPANS * 2 + 1))
_LAST: Final = len(_NUMBERS) - 1


class Trace:
    """A part of a trace: one request or job of this process. `id` has 32 hexadecimal digits, `prefix` has 12, and the spans of this part
    have ids that begin with it. `now` returns nanoseconds since 1970.
    """

    __slots__ = ("begun", "id", "left_out", "now", "prefix", "spans")

    def __init__(self, trace: str, prefix: str, now: Callable[[], int]) -> None:
        self.id = trace
        self.prefix = prefix
        self.now = now
        self.begun = 0
        self.spans: list[TraceSpan] = []
        self.left_out = 0


class TraceSpan:
    """A span, open for the length of a `with` block. Each request makes several, so this is a plain class, whose rarer values are set only
    where they differ.
    """

    own: Attributes = ()
    """Attributes that differ from span to span. `attributes` has those that many spans share."""
    link: TraceContext | None = None
    """The context of the work that caused this work, in a trace of its own."""
    error = ""
    """The kind of failure: the name of an exception's class, or a status."""
    ended = 0
    _token: "Token[TraceSpan | None]"

    def __init__(self, trace: Trace, kind: SpanKind, name: str, attributes: Attributes, parent: str) -> None:
        """`parent` is the parent's id, or an empty text."""
        number = trace.begun
        # Spans with a number beyond the last are left out, unless hundreds are open at once; then their children lack a parent.
        trace.begun = number + 1 if number < _LAST else number
        self.id = trace.prefix + _NUMBERS[number]
        self.trace = trace
        self.kind = kind
        self.name = name
        self.attributes = attributes
        self.parent = parent
        self.began = trace.now()

    def __enter__(self) -> Self:
        self._token = current_span.set(self)
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

    def travelled(self, kind: SpanKind, named: Sequence[tuple[str, Attributes]], began: int, error: BaseException | None = None) -> None:
        """Adds children that began and ended together, such as statements that share a round trip. A failure is that of the last."""
        made: TraceSpan | None = None
        for name, attributes in named:
            made = self.child(kind, name, attributes)
            made.began = began
            made.end()
        if made is not None and error is not None:
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

    def begin(self, kind: SpanKind, name: str, *, work: str = "", parent: TraceContext | None = None) -> TraceSpan | None:
        """The first span of a request or job; the caller enters it. `work` is a UUID of ours, which becomes the id of the trace, if there
        is no parent. A parent's decision counts. None when the work is not traced.
        """

    def finish(self, span: TraceSpan) -> None:
        """Takes all spans of the part that this ended span began. Never waits and never fails."""


@contextmanager
def traced(
    traces: Traces | None, kind: SpanKind, name: str, attributes: Attributes = (), *, own: Attributes = (), link: TraceContext | None = None
) -> Iterator[None]:
    """Traces the block as a piece of work of its own, such as a job. The span names the request that left the work behind."""
    span = None if traces is None else traces.begin(kind, name)
    if traces is None or span is None:
        yield
        return
    request = causing_request()
    caused = () if request is None else (("postern.request_id", str(request)),)
    span.attributes, span.own, span.link = attributes, (*own, *caused), link
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
