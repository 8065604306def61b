"""Which requests and jobs are traced."""

import random
import time
from collections.abc import Callable
from typing import Final

from core.domain.record.trace_contexts import TraceContext
from ports.record.spans import SpanKind, Trace, TraceSpan

_ID_BITS: Final = 63
"""Ids of spans count up from a random number of so many bits: none is 0, and none has more than 16 hexadecimal digits."""


class SampledTraces:
    """Implements `ports.record.spans.Traces`. `share` is the share of work that is traced, from 0 to 1; a parent has decided already."""

    def __init__(self, share: float, sink: Callable[[Trace], None], now: Callable[[], int] = time.time_ns) -> None:
        self._share = share
        self._sink = sink
        self._now = now

    def begin(self, kind: SpanKind, name: str, *, trace: str = "", parent: TraceContext | None = None) -> TraceSpan | None:
        if not (self._drawn() if parent is None else parent.sampled):
            return None
        # Neither ids nor the draw are secrets: whoever guesses them learns nothing and gains nothing.
        first = random.getrandbits(_ID_BITS)
        if parent is not None:
            return TraceSpan(Trace(parent.trace, first, self._now), kind, name, (), parent.span)
        return TraceSpan(Trace(trace or f"{random.getrandbits(128) | 1:032x}", first, self._now), kind, name, (), "")

    def finish(self, span: TraceSpan) -> None:
        self._sink(span.trace)

    def _drawn(self) -> bool:
        return self._share >= 1 or random.random() < self._share  # noqa: S311
