"""Where spans go."""

from collections.abc import Sequence
from typing import Protocol

from core.frozen import Frozen


class Collected(Frozen):
    """The collector took the spans, except for so many."""

    rejected: int


class NotCollected(Exception):
    """`passes`: trying again may help. `retry_after` is the collector's header."""

    def __init__(self, reason: str, *, passes: bool, retry_after: str | None = None) -> None:
        self.reason = reason
        self.passes = passes
        self.retry_after = retry_after
        super().__init__(reason)


class SpanCollector(Protocol):
    """A client of OTLP/HTTP implements it."""

    async def collect(self, texts: Sequence[str], count: int) -> Collected:
        """`texts` has so many spans, in the collector's own form. Raises `NotCollected`. The collector may get the same spans twice; it
        knows them by their ids.
        """
