"""The heads of HTTP/1.1: what the server itself reads in a request's, and how it writes an answer's.

h11 parses what `bodies.count_lines` has let through; the strictness of both is what keeps request smuggling out. We write answers
ourselves: h11's writer costs as much as its parser, while the framing of an answer is simple.
"""

import time
from collections.abc import Iterable, MutableMapping
from datetime import UTC, datetime
from email.utils import formatdate
from enum import Enum, auto
from functools import lru_cache
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import h11
import msgspec

from entrypoints.http.server.bodies import Malformed

Scope = MutableMapping[str, Any]
Headers = Iterable[tuple[bytes, bytes]]

RETRY_SOON = ((b"retry-after", b"1"),)
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
# How an answer travels is between us and the client, and not for the application to say. Which software we run is nobody's business.
_HOP_BY_HOP = frozenset({b"transfer-encoding", b"keep-alive", b"upgrade", b"server"})
_READ_BY_US = frozenset({b"connection", b"content-length", b"transfer-encoding", b"expect", b"upgrade"})


class RequestHead:
    """What the server reads in a request's head. Raises `Malformed` for what h11 lets through and we do not."""

    __slots__ = ("expects_continue", "headers", "keeps_alive", "length", "method", "old", "target")

    def __init__(self, request: h11.Request) -> None:
        if request.http_version not in {b"1.1", b"1.0"}:
            # This also catches the preface of HTTP/2 with prior knowledge, `PRI * HTTP/2.0`.
            raise Malformed(505, "This server speaks HTTP/1.1")
        self.method = request.method.decode("ascii").upper()
        self.target: bytes = request.target
        if not self.target.startswith((b"/", b"http://", b"https://")) and (self.target != b"*" or self.method != "OPTIONS"):
            # Above all, CONNECT's form: this server is no proxy.
            raise Malformed(400, "The request target is invalid")
        self.headers = list(request.headers)
        self.old = request.http_version == b"1.0"
        self.keeps_alive = not self.old
        self.expects_continue = False
        # The length of the body, in bytes. None when it comes in chunks.
        self.length: int | None = 0
        ours = {name: value.lower() for name, value in self.headers if name in _READ_BY_US}
        if ours:
            self._heed(ours)

    def _heed(self, headers: dict[bytes, bytes]) -> None:
        chunked = b"transfer-encoding" in headers
        if chunked and (self.old or b"content-length" in headers):
            # RFC 9112 section 6.1: two statements about where the body ends, or a coding that HTTP/1.0 does not have, serve to smuggle
            # requests past a proxy that believes the other statement.
            raise Malformed(400, "The request's length is ambiguous")
        if headers.get(b"upgrade") == b"websocket":
            raise Malformed(400, "This server does not offer WebSocket")
        self.length = None if chunked else int(headers.get(b"content-length", b"0"))
        self.expects_continue = self.has_body and headers.get(b"expect") == b"100-continue" and not self.old
        if any(b"close" in value.lower() for name, value in self.headers if name == b"connection"):
            self.keeps_alive = False

    @property
    def has_body(self) -> bool:
        return self.length != 0

    def scope(self) -> Scope:
        """The ASGI scope, except what the connection adds: scheme, client, server, state."""
        raw_path, _, query = self.target.partition(b"?")
        if raw_path[:1] not in b"/*":
            # The absolute form, which clients send to proxies and which servers must accept (RFC 9112 section 3.2.2).
            raw_path = b"/" + raw_path.partition(b"://")[2].partition(b"/")[2]
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.1"},
            "http_version": "1.0" if self.old else "1.1",
            "method": self.method,
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": self.headers,
            "extensions": {},
        }


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
        # If there are not as many line breaks as lines, a header's value contains one: that is how an answer is split in two.
        if data.count(b"\n") != len(lines) or data.count(b"\r") != len(lines) or b"\0" in data:
            raise RuntimeError("The application sent a header with control characters")
        return data


def error_answer(status: int, code: str, text: str, *, close: bool, headers: Headers = (), bodiless: bool = False) -> bytes:
    """A whole answer in the shape of all our errors, for whatever goes wrong before or outside the application."""
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
    # Made once a second: formatting a date costs more than the rest of a small head.
    return f"date: {formatdate(second, usegmt=True)}\r\n".encode()
