"""What a handler is called with: the request as the dispatcher sees it, and the typed call made of it."""

from collections.abc import Sequence
from typing import Final, Generic, Protocol

from typing_extensions import TypeVar

from core.domain.sessions import Caller
from core.usecases.callers import Callers
from ports.clock import Clock
from ports.ids import Ids
from ports.metrics import Metrics
from ports.rate_limits import SharedBuckets

# The defaults let a handler that needs none of them write plain `Call`.
Body = TypeVar("Body", default=None)
Query = TypeVar("Query", default=None)
Path = TypeVar("Path", default=None)
Who = TypeVar("Who", default=Caller)

UNMATCHED: Final = "unmatched"
"""In place of a path template, where there is none: a path of a stranger's making is no label."""
GONE: Final = 499
"""In place of a status, never sent: the client left, or the end of the process cut the request off."""


class RequestServices(Protocol):
    """What the way to a handler needs; the handler itself gets all of `entrypoints.bootstrap.Services`."""

    @property
    def callers(self) -> Callers: ...
    @property
    def metrics(self) -> Metrics: ...
    @property
    def shared_buckets(self) -> SharedBuckets: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def ids(self) -> Ids: ...


class Request:
    """One request, as far as the machinery needs it. A plain class with slots: it is made on every request, and a frozen one costs five
    times as much to make.
    """

    __slots__ = ("_headers", "caller", "client_address", "id", "method", "query_string", "quiet", "size", "status", "template")

    def __init__(self, method: str, query_string: bytes, headers: dict[bytes, bytes]) -> None:
        self.method = method
        self.query_string = query_string
        self._headers = headers
        self.id = ""
        self.client_address = ""
        self.caller: Caller | None = None
        # What the log and the metrics will say of it.
        self.template = UNMATCHED
        self.status = GONE
        self.size = 0
        self.quiet = False

    def header(self, name: bytes) -> bytes | None:
        """By lower-case name. A header sent several times arrives as one, joined by commas (RFC 9110 section 5.3)."""
        return self._headers.get(name)


def headers_by_name(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    by_name = dict(headers)
    if len(by_name) != len(headers):
        by_name = {}
        for name, value in headers:
            by_name[name] = by_name[name] + b", " + value if name in by_name else value
    return by_name


class Call(Generic[Body, Query, Path, Who]):
    """A request whose parts have their declared types, from a caller whom the declaration lets in."""

    __slots__ = ("_caller", "body", "path", "query", "request")

    def __init__(self, request: Request, caller: Who | None, body: Body, query: Query, path: Path) -> None:
        self.request = request
        self._caller = caller
        self.body = body
        self.query = query
        self.path = path

    @property
    def caller(self) -> Who:
        """Whom the declaration's rule admitted. A public endpoint has none: asking there is a mistake in the handler."""
        if self._caller is None:
            raise LookupError("A public endpoint knows no caller")
        return self._caller

    @property
    def client_address(self) -> str:
        return self.request.client_address

    @property
    def user_agent(self) -> str:
        return (self.request.header(b"user-agent") or b"").decode("utf-8", "replace")
