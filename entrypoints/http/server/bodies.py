"""Finds where the body of a request ends, strictly by RFC 9112, against request smuggling."""

import re
from enum import Enum, auto
from typing import Final

_LINE_END: Final = b"\r\n"
SECTION_END: Final = b"\r\n\r\n"
# RFC 9112 section 7.1. No body has a size of more than 16 digits; in extensions only the characters matter to us.
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e\x80-\xff]*|[ \t]*)")
_LONGEST_CHUNK_LINE: Final = 256
_TRAILER: Final = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class MalformedBody(Exception):
    """The request cannot be served as it stands; the status says why.

    RFC 9112 lets a recipient be lenient in several places: a line may end in a bare LF (section 2.2), a header may be folded (section 5.2),
    a chunk's extension may hold anything. If two parsers on a request's way are lenient in different ways, a request can be smuggled past
    the first parser. So here every line must end in CRLF, and every departure from the grammar is refused.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def is_complete(section: bytes | bytearray, most: int) -> bool:
    """Whether the end of a head or of trailers has arrived. The lines are checked before any of them is parsed.

    The section begins with a line that is no field: the request line, or the end of the last chunk's line. Raises `MalformedBody` for more
    than `most` fields, and for lines that two parsers could end in different places. The check runs for every request, so it has few steps,
    and all of them run in C.
    """
    end = section.find(SECTION_END)
    complete = end >= 0
    if not complete:
        # A CR at the very end may be half of a CRLF.
        end = len(section) - section.endswith(b"\r")
    lines = section.count(b"\n", 0, end)
    if section.count(b"\r", 0, end) != lines or section.count(_LINE_END, 0, end) != lines:
        raise MalformedBody(400, "A line of the request does not end in CRLF")
    if lines - (not complete) > most:
        raise MalformedBody(431, "The request has too many header lines")
    return complete


class WholeBody:
    """A body that came together with its head, as most bodies do, or an empty body. `rest` has the bytes after the body."""

    __slots__ = ("_body", "complete", "rest")

    def __init__(self, body: bytes, rest: bytes) -> None:
        self._body = body
        self.rest = rest
        self.complete = not body

    def feed(self, _data: bytes) -> None:
        raise AssertionError("There is nothing to come")

    def next_piece(self) -> bytes | None:
        if self.complete:
            return None
        self.complete = True
        return self._body


class Body:
    """A body that arrives in parts: a given number of bytes, or chunks. `rest` has the bytes after the body."""

    __slots__ = ("_buffer", "_chunked", "_most_trailer_bytes", "_most_trailers", "_remaining", "_stage", "complete")

    def __init__(self, length: int | None, received: bytes, *, most_trailers: int, most_trailer_bytes: int) -> None:
        """`length` is None for a body in chunks, and never 0."""
        self._buffer = bytearray(received)
        self._chunked = length is None
        self._remaining = length or 0
        self._stage = _Stage.SIZE if length is None else _Stage.DATA
        self._most_trailers = most_trailers
        self._most_trailer_bytes = most_trailer_bytes
        self.complete = False

    @property
    def rest(self) -> bytes:
        """The bytes after a complete body: the beginning of the next request."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next_piece(self) -> bytes | None:
        """The part of the body that has arrived. None when more has to arrive first, or the body is complete. Raises `MalformedBody`."""
        if self.complete:
            return None
        if not self._chunked:
            piece = self._data()
            self.complete = not self._remaining
            return piece
        if self._stage is _Stage.END_OF_DATA and not self._end_chunk():
            return None
        if self._stage is _Stage.SIZE and not self._begin_chunk():
            return None
        if self._stage is _Stage.TRAILERS:
            self._read_trailers()
            return None
        piece = self._data()
        if not self._remaining:
            self._stage = _Stage.END_OF_DATA
        return piece

    def _data(self) -> bytes | None:
        if not self._buffer:
            return None
        piece = bytes(self._buffer[: self._remaining])
        del self._buffer[: self._remaining]
        self._remaining -= len(piece)
        return piece

    def _begin_chunk(self) -> bool:
        end = self._buffer.find(_LINE_END, 0, _LONGEST_CHUNK_LINE)
        if end < 0:
            if len(self._buffer) >= _LONGEST_CHUNK_LINE or b"\n" in self._buffer:
                raise MalformedBody(400, "The request body is malformed")
            return False
        line = _CHUNK_LINE.fullmatch(self._buffer, 0, end)
        if line is None:
            raise MalformedBody(400, "The request body is malformed")
        self._remaining = int(line[1], 16)
        # The last line's own end stays: with it, the trailers look like a head whose request line is empty.
        del self._buffer[: end + (len(_LINE_END) if self._remaining else 0)]
        self._stage = _Stage.DATA if self._remaining else _Stage.TRAILERS
        return True

    def _end_chunk(self) -> bool:
        found = self._buffer[: len(_LINE_END)]
        if not _LINE_END.startswith(found):
            raise MalformedBody(400, "The request body is malformed")
        if len(found) < len(_LINE_END):
            return False
        del self._buffer[: len(_LINE_END)]
        self._stage = _Stage.SIZE
        return True

    def _read_trailers(self) -> None:
        """Check the trailers and drop them, because nothing here needs trailers."""
        complete = is_complete(self._buffer, self._most_trailers)
        end = self._buffer.find(SECTION_END) if complete else len(self._buffer)
        if end > self._most_trailer_bytes:
            raise MalformedBody(431, "The request's trailers are too large")
        if not complete:
            return
        if not all(map(_TRAILER.fullmatch, self._buffer[len(_LINE_END) : end].split(_LINE_END) if end else ())):
            raise MalformedBody(400, "The request body is malformed")
        del self._buffer[: end + len(SECTION_END)]
        self.complete = True


class _Stage(Enum):
    SIZE = auto()
    DATA = auto()
    END_OF_DATA = auto()
    TRAILERS = auto()


AnyBody = WholeBody | Body
