"""Traces that a test looks at before they are encoded."""

from collections.abc import Sequence

from adapters.traces import SampledTraces
from ports.record import TraceSpan

Spans = Sequence[TraceSpan]


class KeptTraces(SampledTraces):
    """Keeps the spans of each request or job that has ended, and how they are told."""

    def __init__(self, share: float = 1) -> None:
        super().__init__(share, self._keep)
        self.ended: list[Spans] = []
        self.told: list[tuple[str, int, int]] = []

    def finish(self, span: TraceSpan) -> None:
        spans = span.trace.spans
        super().finish(span)
        self.ended.append(spans)

    def _keep(self, text: str, count: int, left_out: int) -> None:
        self.told.append((text, count, left_out))
