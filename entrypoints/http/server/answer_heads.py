"""The heads of answers, and how their bodies travel."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import formatdate
from enum import Enum, auto
from functools import lru_cache
from http import HTTPStatus

import msgspec

Headers = Iterable[tuple[bytes, bytes]]

RETRY_SOON = ((b"retry-after", b"1"),)
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
# The server, not the application, decides how an answer travels. `server` is dropped as well, so that nobody learns which software we run.
_HOP_BY_HOP = frozenset({b"transfer-encoding", b"keep-alive", b"upgrade", b"server"})


class Framing(Enum):
    """How the client knows where an answer's body ends."""

    UNDECIDED = auto()
    NOTHING = auto()
    LENGTH = auto()
    CHUNKED = auto()
    UNTIL_CLOSE = auto()


class AnswerHead:
    """The head of an application's answer, read once: its header lines, and how its body will travel."""

    __slots__ = ("_dated", "_lines", "closes", "framing", "length", "status")

    def __init__(self, status: int, headers: Headers) -> None:
        if status < 200:
            raise RuntimeError(f"The application answered with the interim status {status}")
        self.status = status
        self.length: int | None = None
        self.closes = False
        self.framing = Framing.UNDECIDED
        self._dated = False
        self._lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        for name, value in headers:
            lowered = name.lower()
            if lowered == b"content-length":
                self.length = int(value)
            elif lowered == b"connection":
                self.closes = self.closes or b"close" in value.lower()
            elif lowered not in _HOP_BY_HOP:
                self._dated = self._dated or lowered == b"date"
                self._lines.append(b"%b: %b\r\n" % (name, value))

    def frame(self, body: bytes, *, more: bool, method: str, old: bool) -> None:
        """Decide the framing from the first piece of the body and whether there is more."""
        if self.status in {204, 304}:
            self.framing = Framing.NOTHING
            if self.status == 204:
                self.length = None  # RFC 9110 section 8.6 forbids it.
            return
        if self.length is None and not more:
            self.length = len(body)
        if method == "HEAD":
            self.framing = Framing.NOTHING
        elif self.length is not None:
            if not more and self.length != len(body):
                raise RuntimeError(f"The application announced {self.length} bytes and sent {len(body)}")
            self.framing = Framing.LENGTH
        elif old:
            self.framing = Framing.UNTIL_CLOSE
            self.closes = True
        else:
            self.framing = Framing.CHUNKED

    def data(self) -> bytes:
        lines = self._lines
        if self.length is not None:
            lines.append(b"content-length: %d\r\n" % self.length)
        elif self.framing is Framing.CHUNKED:
            lines.append(b"transfer-encoding: chunked\r\n")
        if self.closes:
            lines.append(b"connection: close\r\n")
        if not self._dated:
            lines.append(_date_line(int(time.time())))
        lines.append(b"\r\n")
        data = b"".join(lines)
        # With more line breaks than lines, a header's value contains a line break, and an attacker could split the answer in two.
        if data.count(b"\n") != len(lines) or data.count(b"\r") != len(lines) or b"\0" in data:
            raise RuntimeError("The application sent a header with control characters")
        return data


def error_answer(status: int, code: str, text: str, *, close: bool, headers: Headers = (), bodiless: bool = False) -> bytes:
    """A whole answer in the shape of all our errors, for failures before or outside the application."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    body = msgspec.json.encode({"error": text, "error_code": code, "timestamp": now})
    head = AnswerHead(
        status,
        [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            *headers,
        ],
    )
    head.closes = close
    return head.data() if bodiless else head.data() + body


@lru_cache(maxsize=1)
def _date_line(second: int) -> bytes:
    # The line is made once a second, because formatting a date costs more than the rest of a small head.
    return f"date: {formatdate(second, usegmt=True)}\r\n".encode()
