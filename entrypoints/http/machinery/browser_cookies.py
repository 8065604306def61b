"""The cookies of the pages, and the check that a form comes from a page of ours."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from core.domain.errors import Forbidden
from core.domain.identity.browser_sessions import MOST_ACCOUNTS
from core.domain.identity.devices import Remembered
from core.domain.identity.guards.bound_sessions import ALGORITHMS, COOKIE_LIFETIME, BindingOffer
from core.domain.identity.guards.puzzles import WAITED_UNTIL
from core.domain.secrets import Token
from entrypoints.http.machinery.answers import DEVICE_TOKEN, Headers
from entrypoints.http.machinery.calls import DEVICE_COOKIE, DEVICE_TRUST_COOKIE, HOST_PREFIX, Request

# The token of the browser's session, the tokens of the other accounts that are signed in beside it, the name of the key that the browser
# has registered, the secret of the browser for all of its flows, the secret of the browser for its setup links, the ticket of a user who
# waits in place of a proof of work, a marker while a page waits for the first sign-in to an application, and, during an impersonation, the
# token of that session. Over https the names of the cookies begin with `__Host-`, so that only Postern's own host can have set them. Over
# https Postern does not read the names without the prefix, so that a page on a neighboring host, or on http, cannot plant a cookie.
SESSION_COOKIE: Final = "postern_session"
ACCOUNTS_COOKIE: Final = "postern_accounts"
BOUND_COOKIE: Final = "postern_bound"
FLOW_COOKIE: Final = "postern_flow"
ACTING_COOKIE: Final = "postern_acting"
SETUP_COOKIE: Final = "postern_setup"
LOOK_COOKIE: Final = "postern_look"
WAITING_COOKIE: Final = "postern_waiting"
AWAITS_COOKIE: Final = "postern_awaits"
LOOKS: Final = ("light", "dark")
REGISTRATION: Final = "/bound-session"
"""Where browsers register the keys of their bound sessions."""
# The format of the tokens that `Secrets.token` makes.
_TOKEN: Final = re.compile(rb"[A-Za-z0-9_-]{43}")
# Browsers keep no cookie for longer than 400 days (RFC 6265bis section 5.5).
_LONGEST: Final = timedelta(days=400)
# The ticket of somebody who waits in place of solving a puzzle, as the key ring seals it.
_TICKET: Final = re.compile(rb"[A-Za-z0-9_-]{1,400}")
_BOUND: Final = re.compile(rb"[A-Za-z0-9_.-]{1,200}")
_AWAITS: Final = "yes"
# Longer than any set-up link lives.
_OF_SETUP: Final = timedelta(days=30)


def session_token(request: Request, base_url: str) -> Token | None:
    return _read(request, SESSION_COOKIE, base_url)


def other_tokens(request: Request, base_url: str) -> Sequence[Token]:
    """The tokens of the other accounts that are signed in in this browser, the one that was in use last first. Browsers with one account
    have no such cookie.
    """
    given = request.cookies.get(_name(ACCOUNTS_COOKIE, base_url).encode())
    if given is None:
        return ()
    present = session_token(request, base_url)
    tokens = dict.fromkeys(one.decode("ascii") for one in given.split(b".")[: MOST_ACCOUNTS - 1] if _TOKEN.fullmatch(one))
    return [Token(one) for one in tokens if present is None or one != present.reveal()]


def keep_others(tokens: Sequence[Token], base_url: str) -> Headers:
    """Set the cookie of the other accounts. Without any, the browser forgets the cookie."""
    lasts = f"; Max-Age={int(_LONGEST.total_seconds())}" if tokens else "; Max-Age=0"
    return (_cookie(ACCOUNTS_COOKIE, ".".join(token.reveal() for token in tokens), lasts, base_url),)


def bound_cookie(request: Request, base_url: str) -> Token | None:
    """The cookie that names the key of the browser. Sessions that are bound to the key count with it alone."""
    given = request.cookies.get(_name(BOUND_COOKIE, base_url).encode())
    return Token(given.decode("ascii")) if given is not None and _BOUND.fullmatch(given) else None


def keep_bound(cookie: Token, base_url: str) -> Headers:
    return (_cookie(BOUND_COOKIE, cookie.reveal(), f"; Max-Age={int(COOKIE_LIFETIME.total_seconds())}", base_url),)


def forget_bound(request: Request, base_url: str) -> Headers:
    """After a sign-out: with its next request, the browser asks whether anything is bound to its key."""
    return () if bound_cookie(request, base_url) is None else (_cookie(BOUND_COOKIE, "", "; Max-Age=0", base_url),)


def offer_binding(offer: BindingOffer, base_url: str) -> Headers:
    """Offers the browser to register a key for the session that has just begun (section "Secure-Session-Registration" of the draft)."""
    said = f'({" ".join(ALGORITHMS)});path="{REGISTRATION}";challenge="{offer.challenge}"'
    return ((b"secure-session-registration", said.encode()), *keep_bound(offer.cookie, base_url))


def bound_credential(base_url: str) -> tuple[str, str]:
    """Name and attributes of this cookie. A browser compares them with those of the cookie that it has."""
    return _name(BOUND_COOKIE, base_url), _attributes(base_url)


def flow_secret(request: Request, base_url: str) -> Token | None:
    return _read(request, FLOW_COOKIE, base_url)


def acting_token(request: Request, base_url: str) -> Token | None:
    return _read(request, ACTING_COOKIE, base_url)


def setup_secret(request: Request, base_url: str) -> Token | None:
    return _read(request, SETUP_COOKIE, base_url)


def waiting_ticket(request: Request, base_url: str) -> str:
    """Empty when the browser has none, or one that Postern cannot have made."""
    given = request.cookies.get(_name(WAITING_COOKIE, base_url).encode(), b"")
    return given.decode("ascii") if _TICKET.fullmatch(given) else ""


def keep_waiting(ticket: str, base_url: str) -> Headers:
    return (_cookie(WAITING_COOKIE, ticket, f"; Max-Age={int(WAITED_UNTIL.total_seconds())}", base_url),)


def awaits_sign_in(request: Request, base_url: str) -> bool:
    """Whether a page in this browser waits for the first sign-in to an application. The mark opens nothing: it says whose refused requests
    are worth a look, so that nobody else's cost one.
    """
    return request.cookies.get(_name(AWAITS_COOKIE, base_url).encode()) == _AWAITS.encode()


def keep_awaiting(lasts: timedelta, base_url: str) -> Headers:
    return (_cookie(AWAITS_COOKIE, _AWAITS, f"; Max-Age={int(lasts.total_seconds())}", base_url),)


def keep_setup_secret(secret: Token, base_url: str) -> Headers:
    """Set the cookie by which this browser owns set-up links. A new link in the same browser makes the cookie last longer."""
    return (_cookie(SETUP_COOKIE, secret.reveal(), f"; Max-Age={int(_OF_SETUP.total_seconds())}", base_url),)


def look_of(request: Request, base_url: str) -> str:
    """Light or dark, as somebody has chosen in this browser. Empty if pages follow the system."""
    given = request.cookies.get(_name(LOOK_COOKIE, base_url).encode(), b"").decode("latin-1")
    return given if given in LOOKS else ""


def keep_look(look: str, base_url: str) -> Headers:
    """An empty look follows the system again."""
    lasts = f"; Max-Age={int(_LONGEST.total_seconds())}" if look else "; Max-Age=0"
    return (_cookie(LOOK_COOKIE, look, lasts, base_url),)


def keep_acting(token: Token, lasts: timedelta, base_url: str) -> Headers:
    """Set the cookie of a session in somebody's name, beside the cookie of the platform owner's own session."""
    return (_cookie(ACTING_COOKIE, token.reveal(), f"; Max-Age={max(int(lasts.total_seconds()), 1)}", base_url),)


def forget_acting(base_url: str) -> Headers:
    return (_cookie(ACTING_COOKIE, "", "; Max-Age=0", base_url),)


def keep_session(token: Token, base_url: str) -> Headers:
    """Set the session cookie. The browser keeps the cookie for as long as browsers allow: the session in the database decides when the
    token expires, and the use of a session moves its end.
    """
    return (_cookie(SESSION_COOKIE, token.reveal(), f"; Max-Age={int(_LONGEST.total_seconds())}", base_url),)


def forget_session(base_url: str) -> Headers:
    return (_cookie(SESSION_COOKIE, "", "; Max-Age=0", base_url),)


def keep_flow_secret(secret: Token, base_url: str) -> Headers:
    """Set the flow cookie. The browser keeps the cookie until the browser closes."""
    return (_cookie(FLOW_COOKIE, secret.reveal(), "", base_url),)


def _name(cookie: str, base_url: str) -> str:
    return f"{HOST_PREFIX}{cookie}" if base_url.startswith("https://") else cookie


def _read(request: Request, cookie: str, base_url: str) -> Token | None:
    """None when the request has no such cookie, or a cookie that Postern cannot have made."""
    given = request.cookies.get(_name(cookie, base_url).encode())
    return Token(given.decode("ascii")) if given is not None and _TOKEN.fullmatch(given) else None


def _cookie(cookie: str, value: str, lasts: str, base_url: str) -> tuple[bytes, bytes]:
    return b"set-cookie", f"{_name(cookie, base_url)}={value}{lasts}; {_attributes(base_url)}".encode()


def _attributes(base_url: str) -> str:
    secure = "; Secure" if base_url.startswith("https://") else ""
    return f"Path=/; HttpOnly; SameSite=Lax{secure}"


def device_headers(remembered: Remembered, base_url: str) -> Headers:
    """The headers with the device's tokens. Over https, each cookie is Secure and its name has the `__Host-` prefix, so that a page on a
    neighbouring host cannot set another cookie in its place.

    These are the tokens by which Postern recognizes a device later: cookies for browsers, headers for all other clients.
    """
    https = base_url.startswith("https://")
    headers = []
    if remembered.device_token is not None:
        headers.append((DEVICE_TOKEN.key, remembered.device_token.reveal().encode()))
        headers.append(_device_cookie(DEVICE_COOKIE, remembered.device_token, _LONGEST, https=https))
    if remembered.trust_token is not None and remembered.trusted_for is not None:
        headers.append(_device_cookie(DEVICE_TRUST_COOKIE, remembered.trust_token, remembered.trusted_for, https=https))
    return tuple(headers)


def _device_cookie(name: str, token: Token, lasts: timedelta, *, https: bool) -> tuple[bytes, bytes]:
    prefix, secure = (HOST_PREFIX, "; Secure") if https else ("", "")
    value = f"{prefix}{name}={token.reveal()}; Max-Age={int(lasts.total_seconds())}; Path=/; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", value.encode()


def require_own_form(request: Request, origin: str) -> None:
    """Raises `Forbidden` when a page of another site has sent the form. Browsers name the form's origin in `Sec-Fetch-Site`, at least over
    https, and in `Origin`, which Postern's referrer policy turns into `null`. Without both headers, the form's token must be enough.

    A form of ours means that no other site has sent it in the user's name. Some forms carry the secret of a mailed link, which no other
    site knows. For these forms, a check of the origin that the browser names is enough. A page for users with a session in their browser
    needs more: its form has a token that is bound to the session. The dispatcher checks this token with the secret that the caller rule
    reads from the cookie.
    """
    site = request.header(b"sec-fetch-site")
    given = request.header(b"origin")
    own = given in {None, b"null", origin.encode()} if site is None else site == b"same-origin"
    if not own:
        raise Forbidden("This form was not sent from a page of Postern", words="foreign_form")


def is_of_another_origin(request: Request, origin: str) -> bool:
    """Whether a page of another site has sent the request. The browser then ignores the cookies of the answer."""
    return request.header(b"origin") not in {None, origin.encode()}
