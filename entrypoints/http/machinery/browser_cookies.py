"""The two cookies of the pages: that of the browser's session, and the secret that a browser has for all of its flows.

Over https their names begin with `__Host-`: only our own host can have set them. The other name is not even read there, so that a page on a
neighbouring host, or on http, cannot plant one.
"""

import re
from datetime import timedelta
from typing import Final

from core.domain.secrets import Token
from entrypoints.http.machinery.answers import Headers
from entrypoints.http.machinery.calls import HOST_PREFIX, Request

SESSION_COOKIE: Final = "postern_session"
FLOW_COOKIE: Final = "postern_flow"
# As `Secrets.token` makes them.
_TOKEN: Final = re.compile(rb"[A-Za-z0-9_-]{43}")
# Browsers keep no cookie for longer than 400 days (RFC 6265bis section 5.5).
_LONGEST: Final = timedelta(days=400)


def session_token(request: Request, base_url: str) -> Token | None:
    return _read(request, SESSION_COOKIE, base_url)


def flow_secret(request: Request, base_url: str) -> Token | None:
    return _read(request, FLOW_COOKIE, base_url)


def keep_session(token: Token, base_url: str) -> Headers:
    """The session decides when the cookie ends to count, and its end moves while it is used. So the browser keeps the cookie as long as it
    can.
    """
    return (_cookie(SESSION_COOKIE, token.reveal(), f"; Max-Age={int(_LONGEST.total_seconds())}", base_url),)


def forget_session(base_url: str) -> Headers:
    return (_cookie(SESSION_COOKIE, "", "; Max-Age=0", base_url),)


def keep_flow_secret(secret: Token, base_url: str) -> Headers:
    """Until the browser is closed."""
    return (_cookie(FLOW_COOKIE, secret.reveal(), "", base_url),)


def _name(cookie: str, base_url: str) -> str:
    return f"{HOST_PREFIX}{cookie}" if base_url.startswith("https://") else cookie


def _read(request: Request, cookie: str, base_url: str) -> Token | None:
    """None when the request has no such cookie, or one that cannot be ours."""
    given = request.cookies.get(_name(cookie, base_url).encode())
    return Token(given.decode("ascii")) if given is not None and _TOKEN.fullmatch(given) else None


def _cookie(cookie: str, value: str, lasts: str, base_url: str) -> tuple[bytes, bytes]:
    secure = "; Secure" if base_url.startswith("https://") else ""
    return b"set-cookie", f"{_name(cookie, base_url)}={value}{lasts}; Path=/; HttpOnly; SameSite=Lax{secure}".encode()
