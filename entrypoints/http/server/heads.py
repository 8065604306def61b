"""Reads the head of a request by the grammar of RFC 9112, and writes the heads of responses."""

import re
import time
from collections.abc import Iterable, MutableMapping
from datetime import UTC, datetime
from email.utils import formatdate
from enum import Enum, auto
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from entrypoints.http.server.bodies import MalformedBody

Scope = MutableMapping[str, Any]

_TOKEN: Final = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]++"
# Any visible character but `#`: clients are careless about what they encode in a path or query, but a fragment is never sent.
_REQUEST_LINE: Final = re.compile(rb"(%b) ([\x21\x22\x24-\x7e]++) HTTP/([0-9]\.[0-9])(?=\r\n|\Z)" % _TOKEN)
# Each match is one line, from the end of the line before to its own.
_FIELD: Final = re.compile(rb"\r\n(%b):([\t\x20-\x7e\x80-\xff]*+)(?=\r\n|\Z)" % _TOKEN)
_AUTHORITY: Final = rb"(?:[-._~%!$&'()*+,;=0-9A-Za-z]++|\[[0-9A-Fa-f:.]++\])(?::[0-9]*+)?"
_HOST: Final = re.compile(rb"(?:%b)?" % _AUTHORITY)
_ASKED_BY_PROXIES: Final = b"/proxy/check"
_ABSOLUTE: Final = re.compile(rb"(?i:https?)://(%b)(?=[/?]|\Z)" % _AUTHORITY)
_LENGTH: Final = re.compile(rb"[0-9]{1,19}")
_READ_BY_US: Final = frozenset({b"connection", b"content-length", b"transfer-encoding", b"expect", b"upgrade"})


class RequestHead:
    """The parts of a request's head that the server uses. Raises `MalformedBody`.

    RFC 9112 lets a recipient be lenient, but this parser is strict: a head that two parsers could read in different ways is refused. So no
    request can be smuggled past a proxy inside another request.
    """

    __slots__ = ("expects_continue", "headers", "keeps_alive", "length", "method", "old", "target")

    def __init__(self, section: bytes) -> None:
        """`section` has all bytes before the empty line."""
        line = _REQUEST_LINE.match(section)
        if line is None:
            raise MalformedBody(400, "The request line is malformed")
        method, target, version = line.groups()
        if version not in {b"1.1", b"1.0"}:
            # This also catches the preface of HTTP/2 with prior knowledge, `PRI * HTTP/2.0`.
            raise MalformedBody(505, "This server speaks HTTP/1.1")
        # The method as it was sent: `head` is not HEAD but an unknown method, and its answer has a body.
        self.method: str = method.decode("ascii")
        self.target: bytes = target
        fields = _FIELD.findall(section, line.end())
        if len(fields) != section.count(b"\r\n"):
            # Folded lines do not match either.
            raise MalformedBody(400, "A header of the request is malformed")
        self.headers: list[tuple[bytes, bytes]] = [(name.lower(), value.strip(b" \t")) for name, value in fields]
        self.old = version == b"1.0"
        self.keeps_alive = not self.old
        self.expects_continue = False
        # The length of the body, in bytes. None when it comes in chunks.
        self.length: int | None = 0
        names = [name for name, _ in self.headers]
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or not (hosts or self.old):
            raise MalformedBody(400, "A request has exactly one Host header")
        if hosts and _HOST.fullmatch(hosts[0]) is None:
            raise MalformedBody(400, "The Host header is malformed")
        if target[:1] != b"/":
            self._read_target(target)
        if not _READ_BY_US.isdisjoint(names):
            self._heed(names)

    def _read_target(self, target: bytes) -> None:
        """Read a request target that is no path."""
        if target == b"*" and self.method == "OPTIONS":
            return
        absolute = _ABSOLUTE.match(target)
        if absolute is None:
            # The authority form of CONNECT, for example, because this server is no proxy.
            raise MalformedBody(400, "The request target is invalid")
        # Clients send the absolute form to proxies. Servers must accept this form and take the host from it (RFC 9112 section 3.2.2).
        path = target[absolute.end() :]
        self.target = path if path[:1] == b"/" else b"/" + path
        self.headers = [(b"host", absolute[1]), *((name, value) for name, value in self.headers if name != b"host")]

    def _heed(self, names: list[bytes]) -> None:
        said = {name: value.lower() for name, value in self.headers if name in _READ_BY_US}
        coding, length = said.get(b"transfer-encoding"), said.get(b"content-length")
        if coding is not None:
            if self.old or length is not None:
                # RFC 9112 section 6.1: two statements about where the body ends, or a coding that HTTP/1.0 does not have, serve to smuggle
                # requests past a proxy that believes the other statement.
                raise MalformedBody(400, "The request's length is ambiguous")
            if coding != b"chunked" or names.count(b"transfer-encoding") > 1:
                raise MalformedBody(501, "The request's transfer coding is not `chunked`")
            self.length = None
        elif length is not None:
            # Equal lengths, twice or in a list, could be read as one (section 6.3). No client sends them.
            if _LENGTH.fullmatch(length) is None or names.count(b"content-length") > 1:
                raise MalformedBody(400, "The request's length is invalid")
            self.length = int(length)
        # A proxy that asks about a websocket sends its headers along.
        if said.get(b"upgrade") == b"websocket" and self.target.partition(b"?")[0] != _ASKED_BY_PROXIES:
            raise MalformedBody(400, "This server does not offer WebSocket")
        self.expects_continue = self.length != 0 and said.get(b"expect") == b"100-continue" and not self.old
        if any(b"close" in value.lower() for name, value in self.headers if name == b"connection"):
            self.keeps_alive = False

    def scope(self) -> Scope:
        """The ASGI scope, except what the connection adds: scheme, client, server, state."""
        raw_path, _, query = self.target.partition(b"?")
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
