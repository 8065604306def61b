"""The arguments of handlers: the request as the dispatcher sees it, and the typed call made from the request."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import Token as ContextToken
from time import perf_counter
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic

from typing_extensions import TypeVar

from core.domain.branding import Branding
from core.domain.errors import Refusal
from core.domain.identifiers import ClientId, UserId
from core.domain.identity.browser_sessions import BrowserAccount
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.key_proofs import KeyThumbprint
from core.domain.languages import DEFAULT, Language, chosen_language
from core.domain.platform.configuration.objects import ManagedMark
from core.domain.rate_limits import RateLimit, client_key
from core.domain.record.changed_settings import SettingChange
from core.domain.record.events import ActingKey, Actor
from core.domain.secrets import Token
from core.frozen import replace
from entrypoints.http.machinery.answers import DEVICE_TOKEN, DEVICE_TRUST_TOKEN, RequestHeader
from entrypoints.http.machinery.limits import Limiter
from ports.database import RoundTrips
from ports.record import TraceSpan

# The defaults let a handler without body, query and path write plain `Call`.
Body = TypeVar("Body", default=None)
Query = TypeVar("Query", default=None)
Path = TypeVar("Path", default=None)
Who = TypeVar("Who", default=Caller)

NO_VALUES: Final[Mapping[str, str]] = {}
UNMATCHED: Final = "unmatched"
"""The metrics label of requests whose path matches no template. Strangers invent paths, so a path itself is never a label."""
GONE: Final = 499
"""The status in the log of a request without an answer: the client left, or the process ended during the request. No answer carries this
status.
"""

# The cookies with the device tokens of an earlier sign-in. Clients that are no browsers send a header instead.
DEVICE_COOKIE: Final = "postern_device"
DEVICE_TRUST_COOKIE: Final = "postern_device_trust"
# The name prefix of cookies that only Postern's own host can have set, over https (RFC 6265bis section 4.1.3.2).
HOST_PREFIX: Final = "__Host-"
# Postern's device tokens are far shorter. A longer token is ignored before the code hashes the token.
_LONGEST_OPAQUE_TOKEN: Final = 200


class Request:
    """One request, as far as the machinery needs it. A plain class with slots, because the machinery makes an object for every request, and
    making a frozen object costs five times as much.
    """

    __slots__ = (
        "_cookies",
        "_headers",
        "acted_for",
        "acting_key",
        "asked_languages",
        "began",
        "begun",
        "body",
        "caller",
        "cause",
        "change",
        "client_address",
        "client_id",
        "document",
        "finish",
        "frame",
        "handed_over",
        "heads",
        "id",
        "limiter",
        "managed",
        "method",
        "named",
        "others",
        "path",
        "path_values",
        "query_string",
        "quiet",
        "shown_key",
        "size",
        "span",
        "spoken",
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
        # The id under which rows and log lines name this request. Another one than `id` if the client gave `id`.
        self.cause = ""
        self.client_address = ""
        self.caller: Caller | None = None
        # The other accounts that are signed in in this browser. None where the caller rule has not looked.
        self.others: Sequence[BrowserAccount] | None = None
        self.acting_key: ActingKey | None = None
        # The person for whom an agent acts, beside the agent's own client id.
        self.acted_for: UserId | None = None
        self.client_id: ClientId | None = None
        # The key of which the request has shown a proof.
        self.shown_key: KeyThumbprint | None = None
        # For pages of the console: the mark of the object that a configuration document manages.
        self.managed: ManagedMark | None = None
        # For pages of the console: the names of the things that the page stands below, by the templates of their addresses.
        self.named: Mapping[str, str] = {}
        # For pages of the console: the heads of those things that have one on each of their pages, of the type that the console gives it.
        self.heads: Mapping[str, Any] = {}
        # For pages of the console: what its frame says beside the page, of the type that the console gives it.
        self.frame: Any = None
        # The digest of the configuration document that the request applies.
        self.document = ""
        # For pages of the console: the settings that the request changes.
        self.change: SettingChange | None = None
        # A handler that has called `finish` runs to its end, even when the client leaves. Other handlers are cancelled when their client
        # leaves.
        self.finish: Callable[[], None] = nothing
        # For endpoints whose handler chooses the limit. None when rate limits are off.
        self.limiter: Limiter | None = None
        # The `ui_locales` of the request's flow. The code that looks the flow up sets them.
        self.asked_languages: Sequence[str] = ()
        # The languages of whoever the page belongs to, the first one first; none: all of ours. The endpoint states them, or
        # `Call.speak_for` does.
        self.spoken: Sequence[Language] = ()
        # Headers for the answer of the handler, and also for a refusal or an error.
        self.handed_over: Sequence[tuple[bytes, bytes]] = ()
        # Values for the log and the metrics.
        self.began = perf_counter()
        self.begun: ContextToken[str] | None = None
        self.trips: RoundTrips | None = None
        self.span: TraceSpan | None = None
        self.template = UNMATCHED
        self.status = GONE
        self.size = 0
        self.quiet = False
        self.path_values: Mapping[str, str] = NO_VALUES
        # A caller rule may set `tell`. The dispatcher calls `tell` with the status and the refusal, if there is one; `tell` reads the
        # request's body from `body`.
        self.tell: Callable[[int, Refusal | None], None] | None = None
        self.body = b""

    async def count(self, *limits: RateLimit) -> None:
        """Count the request under these limits, by the client's address. Raises `RateLimited`."""
        if self.limiter is not None:
            await self.limiter.admit(limits, self.client_address)

    def count_client(self, limit: RateLimit) -> None:
        """Count the request under this limit, by the client's id. Raises `RateLimited`."""
        if self.limiter is not None:
            self.limiter.admit_client(limit, str(self.client_id))

    def count_here(self, limit: RateLimit) -> None:
        """Count the request under this limit, by the client's address, in this process alone. Raises `RateLimited`."""
        if self.limiter is not None:
            self.limiter.admit_client(limit, client_key(self.client_address))

    def has_room(self, limit: RateLimit, of_client: RateLimit) -> bool:
        """Whether `count` would admit the request under `limit` and `count_client` under `of_client`, as far as this process knows."""
        return self.limiter is None or (
            self.limiter.has_room(limit, self.client_address) and self.limiter.has_room_for_client(of_client, str(self.client_id))
        )

    def has_room_here(self, limit: RateLimit) -> bool:
        """Whether `count_here` would admit the request."""
        return self.limiter is None or self.limiter.has_room_for_client(limit, client_key(self.client_address))

    def attempt(self, limit: RateLimit) -> AbstractAsyncContextManager[Callable[[], None]]:
        """A try, as `Limiter.attempt` counts tries. For endpoints where only some requests are tries."""
        return nullcontext(nothing) if self.limiter is None else self.limiter.attempt(limit, self.client_address)

    @property
    def accepts_pages(self) -> bool:
        """Whether the sender reads HTML, as a browser does."""
        return b"text/html" in (self.header(b"accept") or b"").lower()

    def header(self, name: bytes) -> bytes | None:
        """The value of a header by its lower-case name. The values of a repeated header are joined by commas (RFC 9110 section 5.3)."""
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
        """Cookies by name. Of two cookies with one name, the first counts, since the first has the longer path (RFC 6265 section 5.4)."""
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
        return self._chosen(self.spoken) or DEFAULT

    @property
    def preferred_language(self) -> Language | None:
        """None when the request names no language that Postern has texts for."""
        return self._chosen()

    def _chosen(self, spoken: Sequence[Language] = ()) -> Language | None:
        setting = None if self.caller is None else self.caller.language
        accepted = (self.header(b"accept-language") or b"").decode("latin-1")
        return chosen_language(self.asked_languages, setting, accepted, spoken)

    @property
    def actor(self) -> Actor:
        """The actor, for the event and its audit entry: the caller, with the impersonator if there is one; an API key; or nobody, at a
        public endpoint.

        Only this property makes actors of requests, so that no use case can leave the impersonator out.
        """
        sender, caller = self.sender, self.caller
        actor = sender.actor(key=self.acting_key) if caller is None else sender.actor(caller.user, caller.impersonator)
        if self.document or self.change is not None:
            return replace(actor, document=self.document, change=self.change)
        return actor

    @property
    def needs_no_proof(self) -> bool:
        """Whether no fresh proof is asked of the caller. Only an operator at the command line needs none."""
        return False


def nothing() -> None:
    """Do nothing. The default of `Request.finish`, and the function that `Request.attempt` yields when rate limits are off."""


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

    if not TYPE_CHECKING:
        # In place of `typing`'s own, which checks and compares each argument in Python, a thousand times at each start.
        __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, request: Request, caller: Who | None, body: Body, query: Query, path: Path) -> None:
        self.request = request
        self._caller = caller
        self.body = body
        self.query = query
        self.path = path

    @property
    def caller(self) -> Who:
        """The caller that the declaration's rule admitted. Raises `LookupError` at a public endpoint, which has no caller: using `caller`
        there is a bug of the handler.
        """
        if self._caller is None:
            raise LookupError("A public endpoint has no caller")
        return self._caller

    @property
    def presented(self) -> Who | None:
        """The caller, or None. For a rule that also admits requests whose header has no credentials, and for what the operator's command
        does by a document, in nobody's name.
        """
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
        """The actor, for use cases that record events."""
        return self.request.actor

    @property
    def language(self) -> Language:
        return self.request.language

    def speak_for(self, brand: Branding) -> None:
        """The page belongs to this organization, so it speaks one of its languages; so does the page of a refusal from here on."""
        self.request.spoken = brand.languages

    @property
    def client_address(self) -> str:
        return self.request.client_address

    @property
    def user_agent(self) -> str:
        return self.request.user_agent


class _Kept:
    """The places of a token that clients keep: a header, or a cookie. The cookie has one name over https and another name over http."""

    __slots__ = ("cookies", "header")

    def __init__(self, header: RequestHeader, cookie: str) -> None:
        self.header = header.key
        self.cookies = (f"{HOST_PREFIX}{cookie}".encode(), cookie.encode())


_DEVICE: Final = _Kept(DEVICE_TOKEN, DEVICE_COOKIE)
_DEVICE_TRUST: Final = _Kept(DEVICE_TRUST_TOKEN, DEVICE_TRUST_COOKIE)


def _kept_by_client(request: Request, kept: _Kept) -> Token | None:
    """None when the request has no token, or a token that Postern cannot have made."""
    given = request.header(kept.header)
    if given is None and (cookies := request.cookies):
        on_https, plain = kept.cookies
        given = cookies.get(on_https) or cookies.get(plain)
    if given is None or not given.isascii() or not 0 < len(given) <= _LONGEST_OPAQUE_TOKEN:
        return None
    return Token(given.decode("ascii"))
