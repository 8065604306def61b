"""The headers that all answers have. They are made once, so that an answer adds only its own headers.

The module also has the headers of single endpoints. A declaration names the headers that its handler reads and the headers of its
successful answers, and the description follows from the declaration. Headers of all requests and answers are described once
(`entrypoints/http/description/openapi.py`).
"""

import re
from functools import cache
from typing import Final, Literal

from core.domain.languages import Language
from core.frozen import Frozen

HeaderList = list[tuple[bytes, bytes]]
Opener = Literal["same-origin", "same-origin-allow-popups", "unsafe-none"]

JSON: Final = b"application/json"
NO_STORE: Final = "no-store"
SELF: Final = "'self'"
_A_YEAR = 31_536_000

_PERMISSIONS = b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"
# Our own address, one inline script or style by its hash, or an origin. No wildcard, no bare scheme, nothing unsafe.
_SOURCE: Final = re.compile(r"'self'|'sha(256|384|512)-[A-Za-z0-9+/]+={0,2}'|https?://([A-Za-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]+)?")


class UnsafePolicy(Exception):
    """A policy that would let a page run or load what it should not. Postern does not start."""


class PagePolicy(Frozen, kw_only=True):
    """What a page may run, load and send, for its Content-Security-Policy (CSP level 3). What is not named is forbidden, and nobody may
    frame any page. An inline script or style is allowed by its hash alone.
    """

    scripts: tuple[str, ...] = ()
    styles: tuple[str, ...] = (SELF,)
    images: tuple[str, ...] = (SELF,)
    connections: tuple[str, ...] = ()
    form_action: tuple[str, ...] | None = ()
    """Where the page's forms may go. Browsers apply this to the whole chain of redirects after a form. None leaves the directive out, for a
    page whose form leads to an address that somebody registered.
    """
    opener: Opener = "same-origin"
    """The Cross-Origin-Opener-Policy: a page that a sign-in opens in a pop-up must stay within reach of the window that opened it."""

    def __post_init__(self) -> None:
        for sources in (self.scripts, self.styles, self.connections, self.form_action or ()):
            _require_safe(sources)
        _require_safe(tuple(source for source in self.images if source != "data:"))

    @property
    def content_security(self) -> bytes:
        directives = [
            ("default-src", ()),
            *((name, sources) for name, sources in self._loaded() if sources),
            *([("form-action", self.form_action)] if self.form_action is not None else []),
            ("base-uri", ()),
            ("frame-ancestors", ()),
        ]
        return "; ".join(f"{name} {' '.join(sources) or _NONE}" for name, sources in directives).encode()

    def _loaded(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return (("script-src", self.scripts), ("style-src", self.styles), ("img-src", self.images), ("connect-src", self.connections))


_NONE: Final = "'none'"
# An API answer is never a document: if a browser shows one all the same, nothing in it runs and nobody may frame it.
_API_POLICY: Final = b"default-src 'none'; frame-ancestors 'none'"
_API_OPENER: Final = b"same-origin"


def _require_safe(sources: tuple[str, ...]) -> None:
    for source in sources:
        if not _SOURCE.fullmatch(source):
            raise UnsafePolicy(f"{source} is not a source that a page may name")


def security_headers(*, https: bool) -> HeaderList:
    """For every answer. Strict-Transport-Security is sent only where the base URL is https: elsewhere browsers ignore it."""
    headers = [
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"permissions-policy", _PERMISSIONS),
    ]
    if https:
        headers.append((b"strict-transport-security", b"max-age=%d" % _A_YEAR))
    return headers


IN_LANGUAGE: Final = {language: ((b"content-language", language.encode()), (b"vary", b"Accept-Language")) for language in Language}
"""For an answer in words that depend on the reader. A cache, if there is one after all, must ask again for a reader of another language."""


def answer_headers(common: HeaderList, media_type: bytes | None, cache: str = NO_STORE, *, policy: PagePolicy | None = None) -> HeaderList:
    """Without a policy: the headers of an API answer, not of a page."""
    headers = [
        *common,
        *_policy_headers(policy),
        (b"cache-control", cache.encode()),
    ]
    if media_type is not None:
        headers.append((b"content-type", media_type))
    return headers


# Hundreds of endpoints have a few policies between them.
@cache
def _policy_headers(policy: PagePolicy | None) -> tuple[tuple[bytes, bytes], ...]:
    return (
        (b"cross-origin-opener-policy", _API_OPENER if policy is None else policy.opener.encode()),
        (b"content-security-policy", _API_POLICY if policy is None else policy.content_security),
    )


class RequestHeader(Frozen):
    """A header that a handler reads with `Request.says`. No header is required: each handler also works without it."""

    name: str
    text: str
    example: str

    @property
    def key(self) -> bytes:
        """As a request has it."""
        return self.name.lower().encode()


class AnswerHeader(Frozen):
    """A header of successful answers."""

    name: str
    text: str
    example: str
    always: bool = True
    """Whether all answers of that status have it."""


DEVICE_TOKEN: Final = RequestHeader(
    "X-Device-Token",
    "The device token that an earlier sign-in on this device answered with. Browsers send it as a cookie instead.",
    "8fKq2ZrWm1LcVb6NsXe0HjUo5TgPaYd3QiRl7wBzMx4",
)
DEVICE_TRUST_TOKEN: Final = RequestHeader(
    "X-Device-Trust-Token",
    "The `device_trust_token` of an earlier sign-in, with which this device may skip the second factor. It has an effect only beside the"
    " device token. Browsers send it as a cookie instead.",
    "3nYc8RqWz1LmVb6KsXe0HjUo5TgPaFd2uQiRl7wBzMx",
)
NEW_DEVICE_TOKEN: Final = AnswerHeader(
    DEVICE_TOKEN.name,
    "The device token: keep it, and send it with the next sign-in and each refresh. It is absent if you owe a second factor, and for a"
    " device that only looks like a trusted one.",
    DEVICE_TOKEN.example,
    always=False,
)
COOKIES: Final = AnswerHeader(
    "Set-Cookie",
    "For browsers: the device token and the trust token as cookies.",
    f"postern_device={DEVICE_TOKEN.example}; Max-Age=34560000; Path=/; HttpOnly; SameSite=Lax",
    always=False,
)
LOCATION: Final = AnswerHeader("Location", "Where the browser goes on.", "https://id.example.org/ui/sign-in")
KEPT_FOR: Final = AnswerHeader("Cache-Control", "Who may keep the answer, and for how many seconds.", "public, max-age=300")
