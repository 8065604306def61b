"""Sessions of a browser: the accounts that are signed in, and the frames of front-channel logout."""

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final

from core.domain.formats import with_parameters
from core.domain.identifiers import BoundKeyId, FlowId, OrganizationId, SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client, Remembered
from core.domain.identity.flows import Flow
from core.domain.identity.sessions import Session
from core.domain.identity.sign_in import Confirmed
from core.domain.secrets import Secret, Token
from core.frozen import Frozen

MOST_ACCOUNTS: Final = 5
"""The largest number of accounts that are signed in in one browser at once. People who keep more apart use profiles of their browser."""


class BrowserAccount(Frozen):
    """An account that is signed in in a browser, with the cookie of its session. Such a session has no tokens: when the user signs in to an
    application, a new session for the application is opened from it.
    """

    token: Token
    caller: Caller


class Visit(Frozen):
    """A browser on a page of one of its flows. A browser may keep the sessions of several accounts. One of them is in use: pages of the
    account and of the console belong to it. The others are listed beside it, the last used first.
    """

    flow: Flow
    browser: Token
    """The secret that the browser has for all of its flows."""
    client: Client
    current: Caller | None
    """The person whose account is in use in this browser."""
    makes_passkeys: bool = False
    """The browser can make passkeys, as the page's script says."""
    upgrades: bool = False
    """The browser can also make one by itself after a password (conditional create), as the script says."""
    others: Sequence[Caller] = ()
    """The other accounts that are signed in in this browser, the one that was in use last first."""
    bound: BoundKeyId | None = None
    """The key that the browser has proved a moment ago. A sign-in binds its session to it."""

    @property
    def signed_in(self) -> Sequence[Caller]:
        return self.others if self.current is None else (self.current, *self.others)

    def session_of(self, user: UserId) -> SessionId | None:
        """The session that this person has in this browser already."""
        return next((one.session for one in self.signed_in if one.user == user), None)

    def ended_by(self, user: UserId) -> Sequence[Caller]:
        """The accounts for which there is no room any more when this person signs in."""
        return beside(self.signed_in, user)[MOST_ACCOUNTS - 1 :]


def beside(signed_in: Sequence[Caller], user: UserId) -> Sequence[Caller]:
    """The accounts that stand beside this person's when it is the one in use."""
    return [one for one in signed_in if one.user != user]


class SignedInBrowser(Frozen):
    """The values that a browser keeps. `remembered` is None when the browser signed in a moment ago and only repeats its form."""

    token: Token
    """The value of the session's cookie."""
    remembered: Remembered | None
    caller: Caller | None = None
    """The caller of a session that has just begun. None when the session has to be looked up."""
    flow: Flow | None = None
    """The flow as it now is. None when the flow has to be looked up."""


class Chosen(Frozen):
    """The organization that a person has chosen to look after in a browser."""

    second_factor_due: datetime | None
    """A member who has to set up a second factor can do so until this moment. None when the organization asks nothing of the member."""
    terms_due: datetime | None = None
    """Until when the person may go on without accepting terms. None when nothing is missing."""


def caller_in(session: Session, confirmed: Confirmed) -> Caller:
    """The caller of a session that has just begun. A look-up by the session's cookie would give the same."""
    account = confirmed.account
    return Caller(
        user=account.id,
        email=account.email,
        session=session.id,
        is_platform_owner=account.is_platform_owner,
        authentication_methods=session.authenticated_by,
        device=session.device,
        proved=session.proved,
        language=account.language,
        email_is_verified=account.address_is_proved,
        belongs_to_several=confirmed.belongs_to_several,
        is_listed=confirmed.is_listed,
    )


def session_token(flow: FlowId, browser: Secret, proof: Secret, key: bytes) -> Token:
    """The cookie of the session that a flow signs in to. Each flow has another one. The cookie is derived from the browser's secret, the
    password or code, and a key of the installation. So the same form, sent twice, gets the same cookie twice. Nobody else can derive the
    cookie, and the database does not have it.
    """
    text = f"{flow} {browser.reveal()} {proof.reveal()}"
    return Token(urlsafe_b64encode(hmac.digest(key, text.encode("utf-8", "surrogatepass"), sha256)).rstrip(b"=").decode())


MOST_FRAMES: Final = 10
_ORIGIN: Final = re.compile(r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(?P<port>[0-9]+))?(?=[/?]|\Z)")
_USUAL_PORTS: Final = {"https": "443", "http": "80"}


class FrameAddress(Frozen):
    """A session that has ended, and the page of its application that the browser loads in a frame, so that the application ends its own
    session there (OpenID Connect Front-Channel Logout 1.0).
    """

    session: SessionId
    address: str
    names_session: bool
    organization: OrganizationId
    """That of the application."""

    def read_by(self, issuer: str) -> str:
        """The address as the frame has it."""
        if not self.names_session:
            return self.address
        return with_parameters(self.address, iss=issuer, sid=str(self.session))


def origin_of(address: str) -> str | None:
    """Scheme, host and port as browsers compare them, and as the policy of a page names them. None for an address of another scheme."""
    found = _ORIGIN.match(address)
    if found is None:
        return None
    scheme, host, port = found["scheme"], found["host"].lower(), found["port"]
    return f"{scheme}://{host}" if port in {None, _USUAL_PORTS[scheme]} else f"{scheme}://{host}:{port}"


def frames(ended: Iterable[FrameAddress], issuer: str) -> tuple[str, ...]:
    """The addresses of the frames: of the newest sessions first, each address once, and `MOST_FRAMES` at most."""
    newest = sorted(ended, key=lambda one: one.session, reverse=True)
    return tuple(dict.fromkeys(one.read_by(issuer) for one in newest))[:MOST_FRAMES]


def origins(addresses: Iterable[str]) -> tuple[str, ...]:
    """The origins of frames, for the policy of their page."""
    return tuple(dict.fromkeys(origin for address in addresses if (origin := origin_of(address)) is not None))
