"""Spans of statements. A span has the operation and the table, which are parts of the program's own text, and never a parameter."""

import re
from functools import lru_cache
from types import TracebackType
from typing import Final

from ports.record import NO_SPAN, Attributes, NoSpan, SpanKind, TraceSpan, current_span

# After `from` may come a function. After `into` comes a table, often with its columns.
_TABLE: Final = re.compile(r"\b(?:(?:into|update)\s+|from\s+(?!\w+\s*\())(?:only\s+)?([a-z_]\w*)")
_OPERATION: Final = re.compile(r"\s*([a-z]+)")
_CLIENT: Final = SpanKind.CLIENT
_SYSTEM: Final = ("db.system.name", "postgresql")
_SHARED: Final = "shared look-up"


def statement_span(statement: str) -> TraceSpan | NoSpan:
    """A span for a statement that is sent and answered within the block."""
    span = current_span.get()
    return NO_SPAN if span is None else span.child(_CLIENT, *_named(statement))


def shared_lookup_span() -> TraceSpan | NoSpan:
    """A span for a wait for the answer to a statement that another task sends."""
    span = current_span.get()
    return NO_SPAN if span is None else span.child(SpanKind.INTERNAL, _SHARED)


class TransactionSpans:
    """The spans of one transaction. Statements that leave together share a round trip, so their spans begin and end together. Entered
    around each wait for answers.
    """

    __slots__ = ("_began", "_queued", "_span")

    def __init__(self) -> None:
        self._queued: list[tuple[str, Attributes]] = []
        self._span: TraceSpan | None = None
        self._began = 0

    def queue(self, statement: str) -> None:
        if current_span.get() is not None:
            self._queued.append(_named(statement))

    def __enter__(self) -> None:
        self._span = span = current_span.get()
        if span is not None:
            self._began = span.trace.now()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        span, queued = self._span, self._queued
        if span is not None:
            self._queued = []
            span.travelled(_CLIENT, queued, self._began, error)


@lru_cache(maxsize=2048)
def _named(statement: str) -> tuple[str, Attributes]:
    """The name of a span and its attributes. Runs once for each statement, because statements are constants."""
    text = statement.lower()
    operation, table = _OPERATION.match(text), _TABLE.search(text)
    summary = " ".join(part for part in (operation and operation[1].upper(), table and table[1]) if part) or "statement"
    return summary, (_SYSTEM, ("db.query.summary", summary))
