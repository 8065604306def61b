"""Pages on the hosts of applications behind a proxy, and the check that proxies ask for.

`/.postern`: the pages for which the proxy of an application leads browsers to us. A sign-in begins here, goes on at the base address,
and comes back with a code; what comes of it is a cookie of this host alone.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

import msgspec
import structlog

from core.domain.errors import Forbidden, NotFound, OrganizationNotActive, Refusal
from core.domain.federation.oauth.refusals import InvalidGrant
from core.domain.federation.proxy_checks import ASSERTION_HEADER, ProxiedRequest, ProxyOutcome, place_to_return, state_of
from core.domain.identity.browser_sessions import origins
from core.domain.identity.sessions import IDLE_LIFETIME
from core.domain.languages import DEFAULT, Language
from core.domain.secrets import Token
from core.domain.services.proxies import OWN_PATH, RETURN_PATH
from core.frozen import replace
from core.usecases.federation.proxy_checks import CheckedRequest
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, Answer, AnswerHeader, NoBody, RequestHeader, redirect
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call, Request
from entrypoints.http.machinery.endpoints import Endpoint, Handler, Statement, declare, endpoint
from entrypoints.http.machinery.errors import ErrorShape, Refused
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import AUTH, PAGE_LOADS, PAGE_SIGN_INS, UNLIMITED
from entrypoints.http.pages.kit import FOREVER, HTML, shipped_pages
from entrypoints.http.pages.kit.declaring import PLAIN, Advised, WayOn, in_words, refused_page
from entrypoints.http.proxied_requests import (
    COOKIE,
    MOST_STATES,
    STATE_COOKIE,
    checked_at_proxy,
    client_address,
    is_for_page,
    person_of,
    sends_form,
    set_cookie,
    states,
)

SIGN_IN_HERE: Final = f"{OWN_PATH}/sign-in"
SIGN_OUT_HERE: Final = f"{OWN_PATH}/sign-out"
_ASSETS: Final = b'="/assets/'
_OWN_ASSETS: Final = b'="' + OWN_PATH.encode() + _ASSETS[2:]


def sign_in_at(place: str) -> str:
    """The address on the application's host that begins a sign-in, and leads back to this path."""
    return f"{SIGN_IN_HERE}?{urlencode({'to': place})}"


def said_here(
    name: str,
    language: Language,
    *,
    good: bool,
    onward: str,
    label: str = "common.continue",
    status: int = 200,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    values: Mapping[str, Any] | None = None,
    frames: Sequence[str] = (),
    beside: bool = False,
) -> Answer[bytes]:
    """The page of an outcome, by the texts `proxied.<name>` and `proxied.<name>_text`. It loads pages of other applications in `frames`,
    and leads on in a new tab `beside` it where that counts.
    """
    pages = shipped_pages()
    text = pages.text(language)
    told = values or {}
    title, explained = text(f"proxied.{name}", **told), text(f"proxied.{name}_text", **told)
    content = pages.said(title, explained, language, good=good, onward=onward, label=text(label), frames=frames, beside=beside)
    policy = replace(PLAIN, frames=origins(frames)) if frames else None
    return Answer(here(content), status, (*headers, (b"content-type", HTML.encode())), policy)


def here(content: bytes) -> bytes:
    return content.replace(_ASSETS, _OWN_ASSETS)


class _RefusedHere:
    """Refusals on the application's host."""

    media_type = HTML
    kind = None

    def value(self, refused: Refused, _at: datetime, language: Language = DEFAULT, request_id: str = "") -> bytes:
        return here(refused_page(refused, Advised("proxied.ask", WayOn("/")), language, request_id))


REFUSED_HERE: Final[ErrorShape] = _RefusedHere()


def words_of(refusal: Refusal, language: Language) -> str:
    return in_words(refusal, shipped_pages().text(language))


log = structlog.get_logger()

# As long as a flow at the base address lives, at most.
_STATE_LIFETIME: Final = 3600
_LONGEST_STATE: Final = 4096
_NAMED: Final = 16
"""The digits of the state that a cookie's name has: enough to tell a browser's own sign-ins apart."""

Page = Answer[Any]


class OwnAssetPath(msgspec.Struct, frozen=True):
    digest: Line
    """The digest of the file."""
    name: Line
    """The file's name."""


def _page(path: str) -> Callable[[Handler], Endpoint]:
    stated: Statement = {
        "caller": ANYONE,
        # By the address that the proxy names, once its secret is known to be good.
        "limit": UNLIMITED,
        "counts": (AUTH, PAGE_LOADS, PAGE_SIGN_INS),
        "errors": REFUSED_HERE,
        "refuses": (Forbidden, NotFound),
        "produces": HTML,
        "translated": True,
    }
    return declare("GET", path, stated, PLAIN)


async def _arrived(call: Call, postern: Postern) -> tuple[ProxiedRequest, CheckedRequest]:
    """Raises `ProxyUnknown`, and `NotFound` for a host that is not the application's."""
    request = call.request
    asked, found = await checked_at_proxy(request, postern)
    if request.limiter is not None:
        await request.limiter.admit((PAGE_LOADS,), client_address(request))
    if not found.found.is_open:
        raise NotFound(words="proxy_closed")
    return asked, found


@_page(SIGN_IN_HERE)
async def sign_in_behind_proxy(call: Call, postern: Postern) -> Page:
    """Begin a sign-in to an application behind a proxy"""
    asked, found = await _arrived(call, postern)
    place = place_to_return(_said(call.request, "to"))
    if found.given.outcome is ProxyOutcome.NOT_ADMITTED or found.given.person is not None:
        return redirect(place, 302)
    checks = postern.federation.proxy_checks
    begun = checks.begin(found.found, asked.host, again=checks.was_idle(found.found))
    kept = urlsafe_b64encode(f"{begun.verifier.reveal()} {place}".encode()).decode()
    old = list(states(call.request))[: -MOST_STATES + 1] if len(states(call.request)) >= MOST_STATES else []
    cookies = (set_cookie(_state_cookie(begun.state), kept, _STATE_LIFETIME), *(set_cookie(name, "", 0) for name in old))
    going = redirect(begun.address, 302)
    return Answer(going.value, going.status, (*going.headers, *cookies))


@_page(RETURN_PATH)
async def return_behind_proxy(call: Call, postern: Postern) -> Page:
    """Come back from a sign-in to an application behind a proxy"""
    asked, found = await _arrived(call, postern)
    request = call.request
    state = _said(request, "state")
    name = _state_cookie(state)
    verifier, place = _begun(states(request).get(name))
    forget = (set_cookie(name, "", 0),)
    if verifier is None or state_of(verifier) != state or _said(request, "iss") != postern.foundation.public_url:
        # Another browser began this sign-in, or this one has forgotten it. Nothing is redeemed: the code may be somebody else's.
        if found.given.person is not None:
            return redirect("/", 302)
        return said_here("failed", call.language, good=False, onward=sign_in_at("/"), label="proxied.again", status=400)
    code = _said(request, "code")
    if not code:
        return said_here("refused", call.language, good=False, onward=sign_in_at(place), label="proxied.again", status=403, headers=forget)
    try:
        cookie = await postern.federation.proxy_checks.redeem(found.found, asked, Token(code), verifier, person_of(request))
    except (InvalidGrant, OrganizationNotActive) as refusal:
        log.info("proxied_sign_in_failed", service=str(found.found.service), reason=refusal.detail or refusal.message)
        return said_here("failed", call.language, good=False, onward=sign_in_at(place), label="proxied.again", status=400, headers=forget)
    back = redirect(place, 302)
    lasts = int(IDLE_LIFETIME.total_seconds())
    return Answer(back.value, back.status, (*back.headers, set_cookie(COOKIE, cookie.reveal(), lasts), *forget))


@_page(SIGN_OUT_HERE)
async def sign_out_behind_proxy(call: Call, postern: Postern) -> Page:
    """Sign out of an application behind a proxy, or everywhere in this browser"""
    _, found = await _arrived(call, postern)
    request = call.request
    everywhere = "everywhere" in _query(request)
    if request.header(b"sec-fetch-site") in {b"cross-site", b"same-site"}:
        # Another site has sent the person here: the person says it once more.
        onward = f"{SIGN_OUT_HERE}?everywhere" if everywhere else SIGN_OUT_HERE
        values = {"service": found.found.service_name}
        return said_here("sign_out", call.language, good=True, onward=onward, label="account.sign_out", values=values)
    person = found.found.person
    told: Sequence[str] = ()
    if person is not None and person.session is not None:
        told = await postern.federation.proxy_checks.sign_out(found.found, person, person_of(request), everywhere=everywhere)
    forget = (set_cookie(COOKIE, "", 0),)
    name = "signed_out_everywhere" if everywhere else "signed_out"
    return said_here(name, call.language, good=True, onward=sign_in_at("/"), label="proxied.again", headers=forget, frames=told)


@endpoint.get(f"{OWN_PATH}/assets/{{digest}}/{{name}}", caller=ANYONE, limit=UNLIMITED, cache=FOREVER)
def asset_behind_proxy(call: Call[None, None, OwnAssetPath], _postern: Postern) -> Answer[bytes]:
    """A style or image of these pages"""
    found = shipped_pages().asset(call.path.digest, call.path.name)
    if found is None:
        raise NotFound
    content, media_type = found
    return Answer(content, 200, ((b"content-type", media_type.encode()),))


def _query(request: Request) -> dict[str, list[str]]:
    return parse_qs(request.query_string.decode("latin-1"), keep_blank_values=True, max_num_fields=20)


def _said(request: Request, name: str) -> str:
    """Empty for what is not said, or said twice."""
    try:
        values = _query(request).get(name, [])
    except ValueError:
        return ""
    return values[0] if len(values) == 1 else ""


def _state_cookie(state: str) -> bytes:
    named = state[:_NAMED]
    return STATE_COOKIE + (named if named.isalnum() and named.isascii() else "none").encode()


def _begun(kept: bytes | None) -> tuple[Token | None, str]:
    """The verifier of the sign-in, and the path that the person wanted."""
    if kept is None or len(kept) > _LONGEST_STATE:
        return None, "/"
    try:
        verifier, _, place = urlsafe_b64decode(kept).decode().partition(" ")
    except ValueError:
        return None, "/"
    return (Token(verifier) if verifier else None), place_to_return(place)


CHECK: Final = "/proxy/check"
# Whoever shows a key knows how, and a browser would ask people for a password: so no `Basic` here.
_CHALLENGE: Final = (b"www-authenticate", b'Bearer realm="application"')
_WORDS: Final = {
    ProxyOutcome.NOT_ADMITTED: "not_admitted",
    ProxyOutcome.NOT_ALLOWED: "not_allowed",
    ProxyOutcome.CLOSED: "closed",
}


class ProxyQuestion(msgspec.Struct, frozen=True):
    """How the proxy wants the answer."""

    answer: Line = ""
    """`status` for a proxy that does not pass redirects through, such as nginx: the response is 401 instead of the redirect to the sign-in,
    without a page.
    """


async def check_proxied_request(call: Call[None, ProxyQuestion], postern: Postern) -> Answer[Any]:
    """Check whether a request to an application behind a proxy may pass

    Called by the reverse proxy in front of an application (a service of the type `proxy`). The proxy sends a client secret of the service
    as `X-Postern-Proxy`, the original request as `X-Forwarded-Method`, `X-Forwarded-Host`, `X-Forwarded-Uri` and `X-Forwarded-For`, and the
    original `Cookie` and `Authorization`. With 200 the request may pass, with the headers of the response replacing its own: identity
    headers are always present, and empty without a value. `X-Postern-Assertion` contains the same as a signed token, valid for 60 seconds.
    302 sends a person to the sign-in, 401 rejects a client without a browser, and 403 denies access. A person who submits a form after the
    session has expired gets 401 with a page, because a redirect would lose the form. `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE` and `OPTIONS`
    get the same responses, because some proxies use the method of the original request; a body is not read.
    """
    asked, found = await checked_at_proxy(call.request, postern)
    outcome = found.given.outcome
    if outcome is ProxyOutcome.ALLOWED:
        headers, assertion = await postern.federation.proxy_checks.told(found, asked.host)
        told = [(name.lower().encode(), value.encode()) for name, value in headers]
        return Answer(NO_BODY, 200, (*told, (ASSERTION_HEADER.lower().encode(), assertion.encode())))
    is_form = sends_form(call.request)
    plain = call.query.answer == "status" or not (is_form or is_for_page(call.request))
    if outcome is not ProxyOutcome.SIGN_IN:
        return _refused(call, found, plain=plain)
    if plain:
        return Answer(NO_BODY, 401, (_CHALLENGE,))
    return _form_not_sent(call, found) if is_form else _sign_in(asked)


def _sign_in(asked: ProxiedRequest) -> Answer[Any]:
    return Answer(NO_BODY, 302, ((b"location", sign_in_at(place_to_return(asked.target)).encode()),))


def _form_not_sent(call: Call[None, ProxyQuestion], found: CheckedRequest) -> Answer[Any]:
    """The sign-in opens beside this page, so that one step back leads to the form with all that stands in it."""
    return said_here(
        "form_not_sent",
        call.language,
        good=False,
        onward=sign_in_at("/"),
        label="proxied.sign_in_beside",
        beside=True,
        status=401,
        headers=(_CHALLENGE,),
        values={"service": found.found.service_name},
    )


def _refused(call: Call[None, ProxyQuestion], found: CheckedRequest, *, plain: bool) -> Answer[Any]:
    if plain:
        return Answer(NO_BODY, 403, ())
    values = {"service": found.found.service_name}
    name = _WORDS[found.given.outcome]
    if found.given.outcome is ProxyOutcome.CLOSED:
        return said_here(name, call.language, good=False, onward="/", status=403, values=values)
    onward = f"{SIGN_OUT_HERE}?everywhere"
    return said_here(name, call.language, good=False, onward=onward, label="proxied.another", status=403, values=values)


_STATED: Final[Statement] = {
    "caller": ANYONE,
    # A proxy asks as often as its application is asked. Wrong secrets and wrong keys count.
    "limit": UNLIMITED,
    "counts": (AUTH, PAGE_SIGN_INS),
    "refuses": (Forbidden,),
    "errors": REFUSED_HERE,
    "produces": HTML,
    "translated": True,
    # The proxy sends the browser's request on, and nothing changes by it.
    "foreign": True,
}
_READS: Final = (
    RequestHeader(
        "X-Postern-Proxy", "A client secret of the application's service. Required: without it, no other header is read.", "cs_a1b2c3"
    ),
    RequestHeader("X-Forwarded-Host", "The host of the original request: one of the application's hosts.", "wiki.acme.example"),
    RequestHeader("X-Forwarded-Uri", "The path and query of the original request, unmodified.", "/admin/x?page=2"),
    RequestHeader("X-Original-Url", "From the original request: a path that differs from its own must satisfy every rule.", "/admin"),
    *(
        RequestHeader(name, "From the original request, as `X-Original-Url`.", "/admin")
        for name in ("X-Rewrite-Url", "X-Original-Uri", "X-Forwarded-Path", "X-Waws-Unencoded-Url")
    ),
    RequestHeader(
        "X-Script-Name", "From the original request: with a path prefix that is stripped, the request must satisfy every rule.", "/wiki"
    ),
    RequestHeader("X-Forwarded-Prefix", "From the original request, as `X-Script-Name`.", "/wiki"),
    RequestHeader("X-Forwarded-Method", "The method of the original request.", "GET"),
    RequestHeader(
        "Authorization", "From the original request: a user API key or the application's own token is accepted.", "Bearer wik_a1"
    ),
    RequestHeader("Sec-Fetch-Mode", "From the original request: whether a person opens a page.", "navigate"),
    RequestHeader("Upgrade", "From the original request: a WebSocket is not a page.", "websocket"),
)
_SENDS: Final = (
    AnswerHeader(
        "Remote-User",
        "The ID of the signed-in person; empty without one. The application can choose which value it receives.",
        "ada@acme.example",
    ),
    AnswerHeader("Remote-Email", "The person's email address, if verified.", "ada@acme.example"),
    AnswerHeader("Remote-Name", "The person's name.", "Ada Lovelace"),
    AnswerHeader("Remote-Groups", "The person's teams, separated by commas.", "engineering,support"),
    AnswerHeader(
        ASSERTION_HEADER,
        "The same as a signed token (`proxy+jwt`) for the application; empty without a signed-in person.",
        "eyJ0eXAi.e30.c2ln",
    ),
)
_CHALLENGED: Final = (AnswerHeader("WWW-Authenticate", "How a client without a browser authenticates.", 'Bearer realm="application"'),)
_ALSO: Final[Mapping[int, Any]] = {302: NoBody, 401: bytes, 403: bytes}
# Each method of the original request, because some proxies ask by the same one. `HEAD` comes with `GET`, as everywhere.
_DESCRIBED: Final[Statement] = {
    **_STATED,
    "tags": ("services",),
    "reads": _READS,
    "sends": {200: _SENDS, 401: _CHALLENGED},
    "also": _ALSO,
}
check: Final[Endpoint] = declare("GET", CHECK, _DESCRIBED, PLAIN)(check_proxied_request)


def _by(method: str) -> Endpoint:
    """The same, as an operation of its own."""

    async def check_proxied(call: Call[None, ProxyQuestion], postern: Postern) -> Answer[Any]:
        return await check_proxied_request(call, postern)

    check_proxied.__name__ = check_proxied.__qualname__ = f"check_proxied_{method.lower()}"
    check_proxied.__doc__ = f"""Ask the same by {method}

    As `GET /proxy/check`, for proxies that ask by the method of the original request. A body is not read.
    """
    return declare(method, CHECK, _DESCRIBED, PLAIN)(check_proxied)


check_post, check_put, check_patch, check_delete, check_options = map(_by, ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
