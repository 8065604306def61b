"""Which requests and jobs are traced."""

import random
import time
from collections.abc import Callable
from typing import Final

from adapters.traces.otlp import encoded
from core.domain.record.stories import TraceContext
from ports.record import SpanKind, Trace, TraceSpan

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
