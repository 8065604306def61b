"""Cross-origin requests (CORS): off unless the operator lists origins, or the endpoint is for applications that run in browsers. Callers
send bearer tokens, and no endpoint that others' pages may call reads or sets a cookie. Some libraries ask the browser to send cookies along
all the same. Their requests pass at the three endpoints that every application in a browser calls, from origins of registered applications.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from entrypoints.http.machinery.headers import HeaderList

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
