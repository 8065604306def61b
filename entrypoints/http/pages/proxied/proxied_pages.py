"""`/.postern`: the pages for which the proxy of an application leads browsers to us. A sign-in begins here, goes on at the base address,
and comes back with a code; what comes of it is a cookie of this host alone.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
import structlog

from core.domain.errors import Forbidden, NotFound, OrganizationNotActive
from core.domain.federation.oauth.refusals import InvalidGrant
from core.domain.federation.proxy_checks import ProxiedRequest, ProxyOutcome, place_to_return, state_of
from core.domain.identity.sessions import IDLE_LIFETIME
from core.domain.secrets import Token
from core.domain.services.proxies import OWN_PATH, RETURN_PATH
from core.usecases.federation.proxy_checks import CheckedRequest
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call, Request
from entrypoints.http.machinery.endpoints import Endpoint, Handler, Statement, declare, endpoint
from entrypoints.http.machinery.limits import AUTH, PAGE_LOADS, PAGE_SIGN_INS, UNLIMITED
from entrypoints.http.pages import FOREVER, HTML, shipped_pages
from entrypoints.http.pages.declaring import PLAIN
from entrypoints.http.pages.proxied.proxied_answers import REFUSED_HERE, SIGN_IN_HERE, SIGN_OUT_HERE, said_here, sign_in_at
from entrypoints.http.proxied_requests import COOKIE, MOST_STATES, STATE_COOKIE, checked, client_address, person_of, set_cookie, states

log = structlog.get_logger()

# As long as a flow at the base address lives, at most.
_STATE_LIFETIME: Final = 3600
_LONGEST_STATE: Final = 4096
_NAMED: Final = 16
"""The digits of the state that a cookie's name has: enough to tell a browser's own sign-ins apart."""

Page = Answer[Any]


class OwnAssetPath(msgspec.Struct, frozen=True):
    digest: str
    """The digest of the file."""
    name: str
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
    asked, found = await checked(request, postern)
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
