"""`/proxy/check`: proxies ask here whether a request to an application behind them may pass. nginx, Caddy, Traefik and HAProxy ask in one
way; what they do with the answer is in `docs/guides/proxies`.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from core.domain.errors import Forbidden
from core.domain.federation.proxy_checks import ASSERTION_HEADER, ProxiedRequest, ProxyOutcome, place_to_return
from core.usecases.federation.proxy_checks import CheckedRequest
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, Answer, NoBody
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint, Statement, declare
from entrypoints.http.machinery.headers import AnswerHeader, RequestHeader
from entrypoints.http.machinery.limits import AUTH, PAGE_SIGN_INS, UNLIMITED
from entrypoints.http.pages import HTML
from entrypoints.http.pages.declaring import PLAIN
from entrypoints.http.pages.proxied.proxied_answers import REFUSED_HERE, SIGN_OUT_HERE, said_here, sign_in_at
from entrypoints.http.proxied_requests import checked, is_for_page, sends_form

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

    answer: str = ""
    """`status` for a proxy that passes no redirect on, such as nginx: 401 in place of the redirect to the sign-in, and no page."""


async def check_proxied_request(call: Call[None, ProxyQuestion], postern: Postern) -> Answer[Any]:
    """Ask whether a request to an application behind a proxy may pass

    For the reverse proxy in front of an application (a service of the type `proxy`). The proxy sends a client secret of the service as
    `X-Postern-Proxy`, the original request as `X-Forwarded-Method`, `X-Forwarded-Host`, `X-Forwarded-Uri` and `X-Forwarded-For`, and the
    original `Cookie` and `Authorization`. With 200 the request may pass, with the headers of the answer in place of its own: those that
    tell who comes are always there, and empty where there is nothing to tell. `X-Postern-Assertion` says the same as a signed token of 60
    seconds. 302 leads a person to the sign-in, 401 refuses a program, and 403 says that somebody may not pass. A person who sends a form
    after the sign-in has ended gets 401 with a page: no redirect leads back to what was sent.
    """
    asked, found = await checked(call.request, postern)
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
    RequestHeader("X-Postern-Proxy", "A client secret of the application's service. Nothing of the rest counts without it.", "cs_a1b2c3_…"),
    RequestHeader("X-Forwarded-Host", "The host of the original request: one of the application's.", "wiki.acme.example"),
    RequestHeader("X-Forwarded-Uri", "The path and query of the original request, as they came.", "/admin/x?page=2"),
    RequestHeader("X-Original-Url", "What the original request has: a path other than its own has to meet every rule.", "/admin"),
    *(
        RequestHeader(name, "What the original request has, as `X-Original-Url`.", "/admin")
        for name in ("X-Rewrite-Url", "X-Original-Uri", "X-Forwarded-Path", "X-Waws-Unencoded-Url")
    ),
    RequestHeader(
        "X-Script-Name", "What the original request has: with a prefix that is cut off its path, it has to meet every rule.", "/wiki"
    ),
    RequestHeader("X-Forwarded-Prefix", "What the original request has, as `X-Script-Name`.", "/wiki"),
    RequestHeader("X-Forwarded-Method", "The method of the original request.", "GET"),
    RequestHeader("Authorization", "What the original request has: a user's key or the application's own token counts.", "Bearer wik_…"),
    RequestHeader("Sec-Fetch-Mode", "What the original request has: whether a person opens a page.", "navigate"),
    RequestHeader("Upgrade", "What the original request has: a websocket is no page.", "websocket"),
)
_SENDS: Final = (
    AnswerHeader("Remote-User", "Who comes; empty if nobody does. The application may choose what it is told in it.", "ada@acme.example"),
    AnswerHeader("Remote-Email", "The person's address, if somebody has proved it.", "ada@acme.example"),
    AnswerHeader("Remote-Name", "The person's name.", "Ada Lovelace"),
    AnswerHeader("Remote-Groups", "The person's teams, with commas between.", "engineering,support"),
    AnswerHeader(ASSERTION_HEADER, "The same as a signed token (`proxy+jwt`) for the application; empty if nobody comes.", "eyJhbGciOi…"),
)
_CHALLENGED: Final = (AnswerHeader("WWW-Authenticate", "How a program shows who it is.", 'Bearer realm="application"'),)
_ALSO: Final[Mapping[int, Any]] = {302: NoBody, 401: bytes, 403: bytes}
# Each method of the original request, because some proxies ask by the same one.
_DESCRIBED: Final[Statement] = {
    **_STATED,
    "tags": ("services",),
    "reads": _READS,
    "sends": {200: _SENDS, 401: _CHALLENGED},
    "also": _ALSO,
}
check: Final[Endpoint] = declare("GET", CHECK, _DESCRIBED, PLAIN)(check_proxied_request)
_OTHERS: Final = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS")
check_post, check_put, check_patch, check_delete, check_options = (
    declare(method, CHECK, _STATED, PLAIN)(check_proxied_request) for method in _OTHERS
)
