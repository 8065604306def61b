"""The arguments of handlers: the request as the dispatcher sees it, and the typed call made from the request."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import Token as ContextToken
from time import perf_counter
from typing import Final, Generic

from typing_extensions import TypeVar

from core.domain.errors import Refusal
from core.domain.identifiers import ClientId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.languages import DEFAULT, Language, chosen_language
from core.domain.rate_limits import RateLimit
from core.domain.record.events import ActingKey, Actor
from core.domain.secrets import Token
from entrypoints.http.machinery.headers import DEVICE_TOKEN, DEVICE_TRUST_TOKEN, RequestHeader
from entrypoints.http.machinery.limits import Limiter
from ports.database import RoundTrips

# The defaults let a handler that needs none of these write plain `Call`.
Body = TypeVar("Body", default=None)
Query = TypeVar("Query", default=None)
Path = TypeVar("Path", default=None)
Who = TypeVar("Who", default=Caller)

NO_VALUES: Final[Mapping[str, str]] = {}
UNMATCHED: Final = "unmatched"
"""The label of requests whose path matches no template. Strangers make paths up, so a path itself is never a label."""
GONE: Final = 499
"""The status in the log of a request without an answer: the client left, or the process ended during the request. It is never sent."""

# The cookies that browsers got at an earlier sign-in and send back. Other clients send a header instead.
DEVICE_COOKIE: Final = "postern_device"
DEVICE_TRUST_COOKIE: Final = "postern_device_trust"
# The prefix of cookies that only our own host can have set, over https (RFC 6265bis section 4.1.3.2).
HOST_PREFIX: Final = "__Host-"
# Our tokens are far shorter. A longer token is refused before it is hashed.
_LONGEST_OPAQUE_TOKEN: Final = 200


class Request:
    """One request, as far as the machinery needs it. A plain class with slots: one is made for every request, and a frozen one costs five
    times as much to make.
    """

    __slots__ = (
        "_cookies",
        "_headers",
        "acting_key",
        "asked_languages",
        "began",
        "body",
        "caller",
        "client_address",
        "client_id",
        "finish",
        "handed_over",
        "id",
        "limiter",
        "log_token",
        "method",
        "path",
        "path_values",
        "query_string",
        "quiet",
        "size",
        "status",
        "tell",
        "template",
        "trips",
    )

    def __init__(self, method: str, path: str, query_string: bytes, headers: dict[bytes, bytes]) -> None:
        self.method = method
        self.path = path
        self.query_string = query_string
        self._headers = headers
        self._cookies: Mapping[bytes, bytes] | None = None
        self.id = ""
        self.client_address = ""
        self.caller: Caller | None = None
        self.acting_key: ActingKey | None = None
        self.client_id: ClientId | None = None
        # A handler that calls `finish` goes on although the client leaves. Other requests end when their client leaves.
        self.finish: Callable[[], None] = nothing
        # For endpoints whose handler chooses the limit. None when rate limits are off.
        self.limiter: Limiter | None = None
        # The `ui_locales` of the request's flow. The code that looks the flow up sets them.
        self.asked_languages: Sequence[str] = ()
        # Headers of the answer, whatever that is: of a refusal, too.
        self.handed_over: Sequence[tuple[bytes, bytes]] = ()
        # Values for the log and the metrics.
        self.began = perf_counter()
        self.log_token: ContextToken[str] | None = None
        self.trips: RoundTrips | None = None
        self.template = UNMATCHED
        self.status = GONE
        self.size = 0
        self.quiet = False
        self.path_values: Mapping[str, str] = NO_VALUES
        # A caller rule may set a function that gets the outcome of the request: its body, the status, and the refusal if there is one.
        self.tell: Callable[[int, Refusal | None], None] | None = None
        self.body = b""

    async def count(self, *limits: RateLimit) -> None:
        """Count the request under these limits, by its address. Raises `RateLimited`."""
        if self.limiter is not None:
            await self.limiter.admit(limits, self.client_address)

    def count_client(self, limit: RateLimit) -> None:
        """Count the request under this limit, by its client. Raises `RateLimited`."""
        if self.limiter is not None:
            self.limiter.admit_client(limit, str(self.client_id))

    def has_room(self, limit: RateLimit, of_client: RateLimit) -> bool:
        """Whether `count` would admit the request under `limit` and `count_client` under `of_client`, as far as this process knows."""
        return self.limiter is None or (
            self.limiter.has_room(limit, self.client_address) and self.limiter.has_room_for_client(of_client, str(self.client_id))
        )

    def attempt(self, limit: RateLimit) -> AbstractAsyncContextManager[Callable[[], None]]:
        """A try that counts as with an endpoint's `attempt`. For endpoints where only some requests are tries."""
        return nullcontext(nothing) if self.limiter is None else self.limiter.attempt(limit, self.client_address)

    def header(self, name: bytes) -> bytes | None:
        """Header values by lower-case name. A header that is sent several times arrives as one, joined by commas (RFC 9110 section 5.3)."""
        return self._headers.get(name)

    def says(self, header: RequestHeader) -> str | None:
        """The value of a header that the declaration names."""
        stated = self._headers.get(header.key)
        return None if stated is None else stated.decode("latin-1")

    @property
    def header_names(self) -> Iterable[bytes]:
        return self._headers

    @property
    def user_agent(self) -> str:
        return (self.header(b"user-agent") or b"").decode("utf-8", "replace")

    @property
    def cookies(self) -> Mapping[bytes, bytes]:
        """Cookies by name. Of two with the same name the first counts: it has the longer path (RFC 6265 section 5.4)."""
        if self._cookies is None:
            header = self.header(b"cookie")
            pairs = [] if header is None else [pair.strip().partition(b"=") for pair in header.split(b";")]
            self._cookies = {name: value for name, _, value in reversed(pairs)}
        return self._cookies

    @property
    def sender(self) -> Client:
        """The request's data about its client, without the tokens that the client keeps."""
        return Client(self.client_address or None, self.user_agent, language=self.preferred_language)

    @property
    def device(self) -> Client:
        """The request's data about its client, with the token that identifies the device."""
        return Client(self.client_address or None, self.user_agent, _kept_by_client(self, _DEVICE), language=self.preferred_language)

    @property
    def client(self) -> Client:
        """The request's data about its client, with the tokens that identify the device and make it trusted."""
        return Client(
            self.client_address or None,
            self.user_agent,
            _kept_by_client(self, _DEVICE),
            _kept_by_client(self, _DEVICE_TRUST),
            self.preferred_language,
        )

    @property
    def language(self) -> Language:
        """The language of a page that answers this request."""
        return self.preferred_language or DEFAULT

    @property
    def preferred_language(self) -> Language | None:
        """None when the request names no language, or none that we have texts for."""
        setting = None if self.caller is None else self.caller.language
        return chosen_language(self.asked_languages, setting, (self.header(b"accept-language") or b"").decode("latin-1"))

    @property
    def actor(self) -> Actor:
        """Who acts, for the event and its audit entry: the caller, with the impersonator who acts in the caller's name if there is one; an
        API key; or nobody, at a public endpoint.

        It is made in this one place, so that no use case can leave the impersonator out.
        """
        sender, caller = self.sender, self.caller
        if caller is None:
            return sender.actor(key=self.acting_key)
        return sender.actor(caller.user, caller.impersonator)


def nothing() -> None:
    """For requests that do not count, or cannot be made to wait."""


def headers_by_name(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    by_name = dict(headers)
    if len(by_name) != len(headers):
        by_name = {}
        for name, value in headers:
            by_name[name] = by_name[name] + b", " + value if name in by_name else value
    return by_name


class Call(Generic[Body, Query, Path, Who]):
    """A request whose parts have their declared types, from a caller whom the declaration admits."""

    __slots__ = ("_caller", "body", "path", "query", "request")

    def __init__(self, request: Request, caller: Who | None, body: Body, query: Query, path: Path) -> None:
        self.request = request
        self._caller = caller
        self.body = body
        self.query = query
        self.path = path

    @property
    def caller(self) -> Who:
        """The caller that the declaration's rule admitted. A public endpoint has none: asking for it there is a mistake in the handler."""
        if self._caller is None:
            raise LookupError("A public endpoint has no caller")
        return self._caller

    @property
    def presented(self) -> Who | None:
        """The caller, or None. For a rule that also admits requests whose header has no credentials."""
        return self._caller

    @property
    def sender(self) -> Client:
        return self.request.sender

    @property
    def device(self) -> Client:
        return self.request.device

    @property
    def client(self) -> Client:
        return self.request.client

    @property
    def actor(self) -> Actor:
        """For every use case that records what it does."""
        return self.request.actor

    @property
    def language(self) -> Language:
        return self.request.language

    @property
    def client_address(self) -> str:
        return self.request.client_address

    @property
    def user_agent(self) -> str:
        return self.request.user_agent


class _Kept:
    """The places of a token that clients keep: a header, or a cookie, which has one name over https and another without."""

    __slots__ = ("cookies", "header")

    def __init__(self, header: RequestHeader, cookie: str) -> None:
        self.header = header.key
        self.cookies = (f"{HOST_PREFIX}{cookie}".encode(), cookie.encode())


_DEVICE: Final = _Kept(DEVICE_TOKEN, DEVICE_COOKIE)
_DEVICE_TRUST: Final = _Kept(DEVICE_TRUST_TOKEN, DEVICE_TRUST_COOKIE)


def _kept_by_client(request: Request, kept: _Kept) -> Token | None:
    """None when the request has no token, or one that cannot be ours."""
    given = request.header(kept.header)
    if given is None and (cookies := request.cookies):
        on_https, plain = kept.cookies
        given = cookies.get(on_https) or cookies.get(plain)
    if given is None or not given.isascii() or not 0 < len(given) <= _LONGEST_OPAQUE_TOKEN:
        return None
    return Token(given.decode("ascii"))
