"""What a handler is called with: the request as the dispatcher sees it, and the typed call made of it."""

from collections.abc import Mapping, Sequence
from typing import Final, Generic, Protocol

from typing_extensions import TypeVar

from core.domain.devices import Client
from core.domain.events import Actor
from core.domain.secrets import Token
from core.domain.sessions import Caller
from core.usecases.api_keys import ApiKeys
from core.usecases.callers import Callers
from core.usecases.impersonation import Impersonations
from core.usecases.sign_in import SignIn
from ports.clock import Clock
from ports.ids import Ids
from ports.metrics import Metrics
from ports.rate_limits import SharedBuckets

# The defaults let a handler that needs none of them write plain `Call`.
Body = TypeVar("Body", default=None)
Query = TypeVar("Query", default=None)
Path = TypeVar("Path", default=None)
Who = TypeVar("Who", default=Caller)

NO_VALUES: Final[Mapping[str, str]] = {}
UNMATCHED: Final = "unmatched"
"""In place of a path template, where there is none: a path of a stranger's making is no label."""
REQUEST_IN_SCOPE: Final = "postern.request"
"""Where a page finds the `Request` that it answers."""
GONE: Final = 499
"""In place of a status, never sent: the client left, or the end of the process cut the request off."""

# What a client was given at an earlier sign-in, and how it brings it back: browsers as a cookie, others as a header.
DEVICE_COOKIE: Final = "postern_device"
DEVICE_HEADER: Final = "X-Device-Token"
DEVICE_TRUST_COOKIE: Final = "postern_device_trust"
DEVICE_TRUST_HEADER: Final = "X-Device-Trust-Token"
# Of cookies that only our own host can have set, over https (RFC 6265bis section 4.1.3.2).
HOST_PREFIX: Final = "__Host-"
# Ours are well below; beyond it nothing is worth hashing.
_LONGEST_OPAQUE_TOKEN: Final = 200


class RequestServices(Protocol):
    """What the way to a handler needs; the handler itself gets all of `entrypoints.bootstrap.Services`."""

    @property
    def callers(self) -> Callers: ...
    @property
    def api_keys(self) -> ApiKeys: ...
    @property
    def metrics(self) -> Metrics: ...
    @property
    def shared_buckets(self) -> SharedBuckets: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def ids(self) -> Ids: ...
    @property
    def impersonations(self) -> Impersonations: ...
    @property
    def sign_in(self) -> SignIn: ...


class Request:
    """One request, as far as the machinery needs it. A plain class with slots: it is made on every request, and a frozen one costs five
    times as much to make.
    """

    __slots__ = (
        "_headers",
        "caller",
        "client_address",
        "id",
        "method",
        "path",
        "path_values",
        "query_string",
        "quiet",
        "size",
        "status",
        "template",
    )

    def __init__(self, method: str, path: str, query_string: bytes, headers: dict[bytes, bytes]) -> None:
        self.method = method
        self.path = path
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
        self.path_values: Mapping[str, str] = NO_VALUES

    def header(self, name: bytes) -> bytes | None:
        """By lower-case name. A header sent several times arrives as one, joined by commas (RFC 9110 section 5.3)."""
        return self._headers.get(name)

    @property
    def user_agent(self) -> str:
        return (self.header(b"user-agent") or b"").decode("utf-8", "replace")

    @property
    def cookies(self) -> dict[bytes, bytes]:
        """By name. Of two with one name the first counts, which is the one with the longer path (RFC 6265 section 5.4)."""
        pairs = (pair.strip().partition(b"=") for pair in (self.header(b"cookie") or b"").split(b";"))
        return {name: value for name, _, value in reversed(list(pairs))}

    @property
    def client(self) -> Client:
        """What the request tells of whoever sent it."""
        return Client(
            self.client_address or None,
            self.user_agent,
            _kept_by_client(self, DEVICE_HEADER, DEVICE_COOKIE),
            _kept_by_client(self, DEVICE_TRUST_HEADER, DEVICE_TRUST_COOKIE),
        )

    @property
    def actor(self) -> Actor:
        """Who does it, for the event and its audit entry: the caller, with whoever acts in the caller's name; nobody at a public endpoint.

        Made in this one place, so that no use case can leave the impersonator out.
        """
        client = Client(self.client_address or None, self.user_agent)
        caller = self.caller
        return client.actor() if caller is None else client.actor(caller.user, caller.impersonator)


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
    def presented(self) -> Who | None:
        """The same where a rule may let in who presents nothing in the head."""
        return self._caller

    @property
    def client(self) -> Client:
        """What the request tells of whoever sent it."""
        return self.request.client

    @property
    def actor(self) -> Actor:
        """For every use case that records what it does."""
        return self.request.actor

    @property
    def client_address(self) -> str:
        return self.request.client_address

    @property
    def user_agent(self) -> str:
        return self.request.user_agent


def _kept_by_client(request: Request, header: str, cookie: str) -> Token | None:
    """None when it brings none, or something that cannot be one of ours."""
    given = request.header(header.lower().encode())
    if given is None:
        cookies = request.cookies
        given = cookies.get(f"{HOST_PREFIX}{cookie}".encode()) or cookies.get(cookie.encode())
    if given is None or not given.isascii() or not 0 < len(given) <= _LONGEST_OPAQUE_TOKEN:
        return None
    return Token(given.decode("ascii"))
