"""Reads what a reverse proxy states about a request to an application behind it."""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

from core.domain.errors import Forbidden
from core.domain.federation.proxy_checks import ProxiedRequest, cookie_digest, told
from core.domain.identity.devices import Client
from core.domain.secrets import Token
from core.domain.services.proxies import OTHER_PATH_HEADERS, PREFIX_HEADERS, ProxySettings
from core.domain.services.user_keys import has_key_shape
from core.frozen import replace
from core.usecases.federation.proxy_checks import CheckedRequest
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Request
from entrypoints.http.machinery.limits import AUTH, PAGE_SIGN_INS
from entrypoints.http.refusals import record_foreign_host, record_proxy_without_secret

SECRET_HEADER: Final = b"x-postern-proxy"
COOKIE: Final = b"__Host-postern"
STATE_COOKIE: Final = b"__Host-postern-state-"
MOST_STATES: Final = 8
"""The sign-ins that a browser may have begun at once at one host, one a tab."""

_LONGEST_SECRET: Final = 200
_LONGEST_TOKEN: Final = 8192
_SECRET: Final = re.compile(rb"[A-Za-z0-9_]+")
_COOKIE_VALUE: Final = re.compile(rb"[A-Za-z0-9_-]{43}")
_HOST: Final = re.compile(r"([a-z0-9.-]{1,253})(?::[0-9]{1,5})?")
_JWT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_ODD: Final = re.compile(rb"[^a-z0-9-]")
_OTHER_PATHS: Final = tuple(name.encode() for name in OTHER_PATH_HEADERS)
_PREFIXES: Final = tuple(name.encode() for name in PREFIX_HEADERS)
_PATH_HEADERS: Final = frozenset((*OTHER_PATH_HEADERS, *PREFIX_HEADERS))
_PAGE_METHODS: Final = frozenset({b"GET", b"HEAD"})


class ProxyUnknown(Forbidden):
    text = "The proxy did not send a client secret of an application behind a reverse proxy (X-Postern-Proxy)"


class SmuggledHeader(Forbidden):
    text = "A header of the request looks like a header that tells the application who signed in"


async def checked_at_proxy(request: Request, postern: Postern) -> tuple[ProxiedRequest, CheckedRequest]:
    """What the proxy says of the request, and what becomes of the request: the caller refuses it, if need be. Raises `ProxyUnknown`,
    `SmuggledHeader`, and `RateLimited` for whoever guesses.
    """
    asked = proxied(request)
    found = None if not asked.secret else await postern.federation.proxy_checks.check(asked)
    if found is None:
        # Wrong secrets alone count: all applications behind one proxy ask from its address, and none may shut the others out.
        await request.count(AUTH)
        await record_proxy_without_secret(postern, asked.host)
        raise ProxyUnknown(words="proxy_unknown")
    if not found.found.has_host:
        # This is the record alone: the outcome refuses the request, and the caller answers.
        record_foreign_host(postern, found.found.client, asked.host)
    _require_own_headers(request, found.found.settings)
    await _limited(request, asked, found)
    return asked, found


def proxied(request: Request) -> ProxiedRequest:
    """All of it counts only if the proxy presents a secret of the application, and only for the application's own hosts:
    `POSTERN_TRUSTED_PROXIES`, which is about the proxy in front of Postern itself, does not apply here.
    """
    shown = request.header(SECRET_HEADER) or b""
    secret = Token(shown.decode("ascii")).digest() if len(shown) <= _LONGEST_SECRET and _SECRET.fullmatch(shown) else b""
    host = _host(request)
    cookie = request.cookies.get(COOKIE)
    known = cookie_digest(host, Token(cookie.decode("ascii"))) if host and cookie is not None and _is_one(request, cookie) else b""
    key, own_token = _credential(request)
    return ProxiedRequest(
        secret=secret,
        host=host,
        target=_target(request),
        cookie=known,
        key=Token(key).digest() if key else b"",
        own_token=own_token,
    )


def is_for_page(request: Request) -> bool:
    """Whether a person opens a page: nobody else follows a redirect to a sign-in, or reads our words."""
    return _method(request) in _PAGE_METHODS and _navigates(request) and request.header(b"upgrade") is None


def sends_form(request: Request) -> bool:
    """Whether a person sends a form. A script that sends one reads the answer itself, and says so by its mode or by what it accepts."""
    return _method(request) == b"POST" and _navigates(request)


def _method(request: Request) -> bytes:
    return request.header(b"x-forwarded-method") or request.method.encode()


def _navigates(request: Request) -> bool:
    return request.accepts_pages and request.header(b"sec-fetch-mode") in {None, b"navigate"}


def person_of(request: Request) -> Client:
    """The client of the proxy, whose address the proxy says: the last one, which the proxy itself has seen."""
    return replace(request.sender, address=client_address(request))


def client_address(request: Request) -> str:
    said = (request.header(b"x-forwarded-for") or b"").decode("latin-1").rpartition(",")[2].strip()
    try:
        return str(ip_address(said))
    except ValueError:
        return request.client_address


def set_cookie(name: bytes, value: str, lasts: int) -> tuple[bytes, bytes]:
    """A cookie that opens this host alone: `__Host-` means that no neighbour can have set it."""
    return b"set-cookie", name + f"={value}; Max-Age={lasts}; Path=/; HttpOnly; SameSite=Lax; Secure".encode()


def states(request: Request) -> Mapping[bytes, bytes]:
    """The sign-ins that the browser has begun at this host."""
    return {name: value for name, value in request.cookies.items() if name.startswith(STATE_COOKIE)}


def _host(request: Request) -> str:
    """Empty for no host, for several, and for what is none."""
    found = _HOST.fullmatch((request.header(b"x-forwarded-host") or b"").decode("latin-1").lower())
    return "" if found is None else found[1]


def _target(request: Request) -> str:
    """Empty, which has to meet every rule, if the client names another path in a header that some applications prefer, or a prefix that
    they cut off the path.
    """
    target = request.header(b"x-forwarded-uri") or b""
    for name in _OTHER_PATHS:
        other = request.header(name)
        if other is not None and not _is_own(request, other, target):
            return ""
    if any(request.header(name) for name in _PREFIXES):
        return ""
    return target.decode("latin-1")


def _is_own(request: Request, other: bytes, target: bytes) -> bool:
    """Whether a path in a header is the request's own, alone or with the host that the proxy names. Nothing but equality counts: whatever
    ends or begins with the path may be read as another one, and of a list, which two headers are too, applications take a part.
    """
    if b"," in other:
        return False
    if other == target:
        return True
    host = request.header(b"x-forwarded-host") or b""
    hosts = (host, host.partition(b":")[0])
    return any(other == scheme + one + target for scheme in (b"https://", b"http://") for one in hosts)


def _is_one(request: Request, cookie: bytes) -> bool:
    """Two cookies of one name are not both ours, and nobody can tell which one is."""
    pairs = (request.header(b"cookie") or b"").replace(b",", b";").split(b";")
    same = [value for name, _, value in (pair.strip().partition(b"=") for pair in pairs) if name == COOKIE]
    return len(same) == 1 and _COOKIE_VALUE.fullmatch(cookie) is not None


def _credential(request: Request) -> tuple[str, str]:
    """A user key, or a token that may be the application's own. Whatever else stands in the header is the application's business."""
    scheme, _, value = (request.header(b"authorization") or b"").partition(b" ")
    shown = value.strip().decode("latin-1")
    if len(shown) > _LONGEST_TOKEN:
        return "", ""
    if scheme.lower() == b"basic":
        try:
            name, _, password = b64decode(shown, validate=True).decode("latin-1").partition(":")
        except (NotBase64, ValueError):
            return "", ""
        return (password, "") if has_key_shape(password) else (name, "") if has_key_shape(name) and not password else ("", "")
    if scheme.lower() == b"bearer":
        if has_key_shape(shown):
            return shown, ""
        return "", shown if _JWT.fullmatch(shown) else ""
    return "", ""


def _require_own_headers(request: Request, settings: ProxySettings) -> None:
    """Servers of applications read `Remote_User` or `Remote.User` as they read `Remote-User`, and proxies do not replace it. Raises
    `SmuggledHeader`.
    """
    names = None
    for name in request.header_names:
        if _ODD.search(name) is None:
            continue
        names = names or {known.lower() for known, _ in told(settings, {})} | _PATH_HEADERS
        plain = _ODD.sub(b"-", name).decode()
        if plain in names or plain.startswith(("x-postern-", "x-forwarded-")):
            raise SmuggledHeader(words="proxy_smuggled", detail=plain)


async def _limited(request: Request, asked: ProxiedRequest, found: CheckedRequest) -> None:
    """Failures of programs count as those of sign-ins do. Who has reached the limit does not learn whether a key is right."""
    if request.limiter is None or not asked.shows_credential:
        return
    by_cookie = found.given.person is not None and found.given.person.session is not None
    address = client_address(request)
    if not by_cookie and (found.given.credential_failed or not request.limiter.has_room(PAGE_SIGN_INS, address)):
        await request.limiter.admit((PAGE_SIGN_INS,), address)
