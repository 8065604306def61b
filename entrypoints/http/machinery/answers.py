"""What handlers answer with: values, security headers, and the CORS headers for other origins."""

import re
from collections.abc import AsyncGenerator, Sequence
from enum import Enum, auto
from functools import cache
from typing import Final, Generic, Literal

import msgspec
from typing_extensions import TypeVar

from core.domain.languages import Language
from core.frozen import Frozen
from entrypoints.http.machinery.fields import MessageText

HeaderList = list[tuple[bytes, bytes]]
Opener = Literal["same-origin", "same-origin-allow-popups", "unsafe-none"]

JSON: Final = b"application/json"
NO_STORE: Final = "no-store"
SELF: Final = "'self'"
_A_YEAR = 31_536_000

_PERMISSIONS = b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"
# Postern's own address, one inline script or style by its hash, or an origin. No wildcard, no bare scheme, no `'unsafe-inline'`.
_SOURCE: Final = re.compile(r"'self'|'sha(256|384|512)-[A-Za-z0-9+/]+={0,2}'|https?://([A-Za-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]+)?")
# Makers of widgets serve their parts from hosts that vary. So a page that is confined may name one label with a wildcard.
_OF_MAKER: Final = re.compile(r"https://\*(\.[A-Za-z0-9-]+){2,}")
# What such a page may do besides showing: send its form, with the cookies of its browser, and run the maker's script. It opens no window,
# and leads no other one anywhere.
_CONFINED: Final = ("allow-forms", "allow-same-origin", "allow-scripts")


class UnsafePolicy(Exception):
    """A policy that would let a page run or load unsafe content. Postern does not start."""


class PagePolicy(Frozen, kw_only=True):
    """The sources from which a page may load and to which a page may send, for its Content-Security-Policy (CSP level 3). All other sources
    are forbidden, and no site may frame a page. An inline script or style is allowed only by its hash.
    """

    scripts: tuple[str, ...] = ()
    styles: tuple[str, ...] = (SELF,)
    images: tuple[str, ...] = (SELF,)
    connections: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    """The scripts that may run beside the page. Without this directive browsers would take `script-src` for it."""
    frames: tuple[str, ...] = ()
    """The origins of the pages that the page may show in frames."""
    confined: bool = False
    """For a page that runs a script of somebody else: no window, no frame and no request of it can reach another page of ours."""
    form_action: tuple[str, ...] | None = ()
    """The targets of the page's forms. Browsers apply the directive to the whole chain of redirects after a form. None leaves the directive
    out, for a page whose form leads to a registered redirect URI.
    """
    opener: Opener = "same-origin"
    """The Cross-Origin-Opener-Policy. The policy must keep a page in a sign-in pop-up connected to the window that opened the pop-up."""

    def __post_init__(self) -> None:
        for sources in (self.scripts, self.styles, self.connections, self.workers, self.frames, self.form_action or ()):
            _require_safe(sources, wildcards=self.confined)
        _require_safe(tuple(source for source in self.images if source != "data:"))
        if self.confined and SELF in (*self.scripts, *self.connections, *self.workers, *self.frames):
            raise UnsafePolicy("a page with a script of somebody else would reach our own pages")

    @property
    def content_security(self) -> bytes:
        directives = [
            ("default-src", ()),
            *((name, sources) for name, sources in self._loaded() if sources),
            *([("form-action", self.form_action)] if self.form_action is not None else []),
            ("base-uri", ()),
            ("frame-ancestors", ()),
            *([("sandbox", _CONFINED)] if self.confined else []),
        ]
        return "; ".join(f"{name} {' '.join(sources) or _NONE}" for name, sources in directives).encode()

    def _loaded(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return (
            ("script-src", self.scripts),
            ("style-src", self.styles),
            ("img-src", self.images),
            ("connect-src", self.connections),
            ("worker-src", self.workers),
            ("frame-src", self.frames),
        )


_NONE: Final = "'none'"
# An API answer is never a document. If a browser shows an API answer all the same, nothing in the answer runs, and no site may frame the
# answer.
_API_POLICY: Final = b"default-src 'none'; frame-ancestors 'none'"
_API_OPENER: Final = b"same-origin"


def _require_safe(sources: tuple[str, ...], *, wildcards: bool = False) -> None:
    for source in sources:
        if not (_SOURCE.fullmatch(source) or (wildcards and _OF_MAKER.fullmatch(source))):
            raise UnsafePolicy(f"{source} is not a source that a page may name")


def security_headers(*, https: bool) -> HeaderList:
    """The headers of every answer. With an http base URL, browsers would ignore Strict-Transport-Security, so the header is left out."""
    headers = [
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"permissions-policy", _PERMISSIONS),
    ]
    if https:
        headers.append((b"strict-transport-security", b"max-age=%d" % _A_YEAR))
    return headers


# `Vary` makes a cache, if there is one, ask again for a reader of another language.
_IN_LANGUAGE: Final = {
    language.tag.encode(): ((b"content-language", language.tag.encode()), (b"vary", b"Accept-Language")) for language in Language
}
# Where `shell.html` says the language of a page.
_STATED: Final = re.compile(rb'<html lang="([A-Za-z-]+)"')
_WHERE_STATED: Final = 80


def language_headers(body: object, language: Language) -> Sequence[tuple[bytes, bytes]]:
    """The headers of an answer to a reader of this language. A page says its language itself, and the header repeats it: the page of an
    organization may speak another one than its reader's.
    """
    stated = _STATED.search(body, 0, _WHERE_STATED) if isinstance(body, bytes) else None
    return _IN_LANGUAGE[language.tag.encode() if stated is None else stated[1]]


def answer_headers(common: HeaderList, media_type: bytes | None, cache: str = NO_STORE, *, policy: PagePolicy | None = None) -> HeaderList:
    """The headers of a page with this policy. Without a policy, the headers of an API answer. Nobody may change the list, because endpoints
    share it.

    The headers are made once, so that an answer adds only its own.
    """
    return _shared_headers(tuple(common), media_type, cache, policy)


# Hundreds of endpoints share a few of these lists. A list for each would take more than a megabyte.
@cache
def _shared_headers(
    common: tuple[tuple[bytes, bytes], ...], media_type: bytes | None, caching: str, policy: PagePolicy | None
) -> HeaderList:
    headers = [
        *common,
        (b"cross-origin-opener-policy", _API_OPENER if policy is None else policy.opener.encode()),
        (b"content-security-policy", _API_POLICY if policy is None else policy.content_security),
        (b"cache-control", caching.encode()),
    ]
    if media_type is not None:
        headers.append((b"content-type", media_type))
    return headers


class RequestHeader(Frozen):
    """A header that a handler reads with `Request.says`. No header is required: each handler also works without it."""

    name: str
    text: str
    example: str

    @property
    def key(self) -> bytes:
        """The name of the header in lower case, as in `Request.header`."""
        return self.name.lower().encode()


class AnswerHeader(Frozen):
    """A header of successful answers.

    A declaration names the headers that its handler reads and the headers of its successful answers, and the OpenAPI description follows
    from the declaration. `entrypoints/http/description/openapi.py` describes the headers of all requests and answers.
    """

    name: str
    text: str
    example: str
    always: bool = True
    """Whether all answers of the declared status have the header."""


DEVICE_TOKEN: Final = RequestHeader(
    "X-Device-Token",
    "The device token from the response to an earlier sign-in on this device. Browsers send it as a cookie instead.",
    "8fKq2ZrWm1LcVb6NsXe0HjUo5TgPaYd3QiRl7wBzMx4",
)
DEVICE_TRUST_TOKEN: Final = RequestHeader(
    "X-Device-Trust-Token",
    "The `device_trust_token` of an earlier sign-in. With this token and the device token, the device may skip MFA. Browsers send it"
    " as a cookie instead.",
    "3nYc8RqWz1LmVb6KsXe0HjUo5TgPaFd2uQiRl7wBzMx",
)
DPOP: Final = RequestHeader(
    "DPoP",
    "A DPoP proof for this request: a signed JSON Web Token (RFC 9449). Tokens are then sender-constrained to the key.",
    "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7fX0.eyJqdGkiOiIxIn0.c2ln",
)
NEW_DEVICE_TOKEN: Final = AnswerHeader(
    DEVICE_TOKEN.name,
    "The device token. Store it, and send it with the next sign-in and each refresh. Absent while MFA is pending, and for a device"
    " that only resembles a trusted device.",
    DEVICE_TOKEN.example,
    always=False,
)
COOKIES: Final = AnswerHeader(
    "Set-Cookie",
    "For browsers: the device token and the trust token as cookies.",
    f"postern_device={DEVICE_TOKEN.example}; Max-Age=34560000; Path=/; HttpOnly; SameSite=Lax",
    always=False,
)
LOCATION: Final = AnswerHeader("Location", "The URL that the browser is redirected to.", "https://id.example.org/ui/sign-in")
KEPT_FOR: Final = AnswerHeader("Cache-Control", "Which caches can store the response, and for how many seconds.", "public, max-age=300")


Headers = tuple[tuple[bytes, bytes], ...]
Value = TypeVar("Value")


class EmptyObject(msgspec.Struct, frozen=True):
    """An empty object, for responses without data."""


class Message(msgspec.Struct, frozen=True):
    """A human-readable message."""

    message: MessageText


class NoBody:
    """No body at all, not even an empty object."""


EMPTY_OBJECT: Final = EmptyObject()
NO_BODY: Final = NoBody()


class Answer(Frozen, Generic[Value]):
    """A value with another status or other headers than the declaration. The values that a handler returns are a Struct for JSON,
    `EMPTY_OBJECT` for an empty object, `NO_BODY` for no body at all, bytes for an encoded body, and `Streamed` for a body that is too long
    for one piece.
    """

    value: Value
    status: int
    headers: Headers = ()
    policy: PagePolicy | None = None
    """Of a page that needs another than its address has. None: the declared one."""


class Streamed(Frozen, Generic[Value]):
    """An answer that is too long for one piece, as its encoded parts. The generator makes the parts while the client reads. The handler's
    deadline and the limit of requests at work (`limits.py`) do not apply to the parts. So the generator must make each part quickly, and
    must hold neither a lock nor a connection to the database between two parts. A failure in the generator breaks the connection off.
    """

    parts: AsyncGenerator[bytes, None]


class SeeOther(Exception):
    """A caller rule redirects the browser to another page, before the request has any effect."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


def redirect(place: str, status: int = 303) -> Answer[NoBody]:
    """A redirect. The default status 303 is for the answer to a form: reloading or going back then does not send the form again."""
    return Answer(NO_BODY, status, ((b"location", place.encode()),))


# MCP clients that run in browsers send their protocol's version along when they look for metadata.
_REQUEST_HEADERS = (
    b"authorization, content-type, dpop, mcp-protocol-version, x-api-key, x-device-token, x-device-trust-token, x-puzzle-challenge, "
    b"x-puzzle-solution, x-request-id"
)
_ANSWER_HEADERS = b"dpop-nonce, retry-after, www-authenticate, x-device-token, x-request-id"
_REMEMBER_SECONDS = b"600"
# Also in answers to requests without an origin: a cache in between must not reuse such an answer for a request with an origin.
_VARY = (b"vary", b"Origin")


_ALLOW_ORIGIN: Final = b"access-control-allow-origin"
_EXPOSE: Final = (b"access-control-expose-headers", _ANSWER_HEADERS)


class Origins(Enum):
    """The origins whose pages may read an answer, besides the origins that the operator lists."""

    LISTED = auto()
    """No other origins."""
    CLIENTS = auto()
    """The origins of applications that run in browsers: an origin of a redirect URI of a public web client."""
    CLIENTS_WITH_CREDENTIALS = auto()
    """The same, also for requests that say `credentials: include`. The endpoint neither reads nor sets a cookie."""
    ALL = auto()
    """All origins, because the answer is public."""


# Without `Vary`: the answer is the same for all origins, so caches need not tell the origins apart.
FOR_ALL: Final[HeaderList] = [(_ALLOW_ORIGIN, b"*")]


def for_origin(origin: bytes) -> HeaderList:
    """The headers that let a page of this origin read the answer."""
    return [_VARY, (_ALLOW_ORIGIN, origin), _EXPOSE]


# The browser gives the answer of a request with cookies to the page only with this. It allows no cookie: the endpoint knows none.
WITH_CREDENTIALS: Final[HeaderList] = [(b"access-control-allow-credentials", b"true")]


def permission(methods: bytes) -> HeaderList:
    """The further headers for an answer to a preflight request (OPTIONS)."""
    return [
        (b"access-control-allow-methods", methods),
        (b"access-control-allow-headers", _REQUEST_HEADERS),
        (b"access-control-max-age", _REMEMBER_SECONDS),
    ]


class CrossOrigin:
    """Cross-origin requests (CORS) are off unless the operator lists origins, or the endpoint is for applications that run in browsers.
    Callers send bearer tokens, and no endpoint that others' pages may call reads or sets a cookie. Some libraries ask the browser to send
    cookies along all the same. Their requests pass at the three endpoints that every application in a browser calls, from origins of
    registered applications.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        self._answers: dict[bytes, HeaderList] = {origin.encode(): for_origin(origin.encode()) for origin in origins}

    @property
    def enabled(self) -> bool:
        return bool(self._answers)

    def headers(self, origin: bytes | None) -> HeaderList:
        """The headers for the answer to an ordinary request."""
        return self._answers.get(origin or b"", [_VARY])

    def preflight_headers(self, origin: bytes | None, methods: bytes) -> HeaderList:
        """The further headers for an answer to OPTIONS. An origin that is not listed gets no permission, and the browser does not send the
        request.
        """
        return permission(methods) if origin in self._answers else []

    def lists(self, origin: bytes) -> bool:
        return origin in self._answers
