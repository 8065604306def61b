"""The request that a row, a job or a log line follows from: one ID leads an operator to everything."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from uuid import UUID

# structlog's `merge_contextvars` adds every variable with this prefix to each log line. structlog's `bind_contextvars` costs seven times as
# much. The text of the id is kept, because each request logs a line, and few write rows.
_request: Final[ContextVar[str]] = ContextVar("structlog_request_id")

# In the text of an id: the time, a hyphen and the rest of the time, and a further hyphen. The version follows.
_TIME: Final = 14


def begin(request: str) -> Token[str]:
    """From now on, what happens in this task follows from the request. `request` is the canonical text of an id."""
    return _request.set(request)


def end(begun: Token[str]) -> None:
    _request.reset(begun)


def causing_request() -> UUID | None:
    """The request from which all follows that happens now. None for work that no request asked for."""
    request = _request.get(None)
    return None if request is None else UUID(request)


def request_text() -> str | None:
    """As `causing_request`, in the text that the request began with."""
    return _request.get(None)


@contextmanager
def caused_by(request: UUID | None) -> Iterator[None]:
    """Sets the request that work follows from which it has left behind, for example a job. None leaves the cause as it is."""
    if request is None:
        yield
        return
    begun = begin(str(request))
    try:
        yield
    finally:
        end(begun)


def named_by_client(fresh: UUID, given: str) -> str:
    """The id of a request that brings a text of its own: the moment of a `fresh` id, and a digest of the text (UUIDv8, RFC 9562 section
    5.8). So the text of a stranger never reaches a table, and the id tells its moment all the same.
    """
    return f"{str(fresh)[:_TIME]}{given_tail(given)}"


def given_tail(given: str) -> str:
    """The end of the id, which depends on the text alone: 74 bits of its digest."""
    digest = sha256(given.encode()).hexdigest()
    return f"8{digest[:3]}-{'89ab'[int(digest[3], 16) & 3]}{digest[4:7]}-{digest[7:19]}"


def moment_of(request: UUID) -> datetime | None:
    """When the request came. None for an id that Postern does not make.

    The ID carries its time, so whoever has the ID knows in which rows to look, and no table needs an index of requests.
    """
    milliseconds = request.int >> 80
    if request.version not in _WITH_TIME or milliseconds > _LATEST:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


_WITH_TIME: Final = (7, 8)
# Somewhere in the year 6429. The bits of an id reach further than a `datetime`.
_LATEST: Final = 1 << 47
