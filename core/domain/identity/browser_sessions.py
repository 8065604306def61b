"""Browser sessions: a person's session on the platform whose credential is a cookie. It has no tokens, and applications that the person
signs in to have sessions opened from it.
"""

import hmac
from base64 import urlsafe_b64encode
from datetime import datetime
from hashlib import sha256

from core.domain.identifiers import FlowId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client, Remembered
from core.domain.identity.flows import Flow
from core.domain.identity.sessions import Session
from core.domain.identity.sign_in import Confirmed
from core.domain.secrets import Secret, Token
from core.frozen import Frozen


class Visit(Frozen):
    """A browser on a page of one of its flows."""

    flow: Flow
    browser: Token
    """The secret that the browser has for all of its flows."""
    client: Client
    current: Caller | None
    """Who is signed in in it already."""


class SignedInBrowser(Frozen):
    """What a browser is to keep. `remembered` is None when it has signed in a moment ago and only repeats its form."""

    token: Token
    """The value of the session's cookie."""
    remembered: Remembered | None
    caller: Caller | None = None
    """Who is signed in in it from now on, in a session that has just begun. None: in one that has to be looked up."""
    flow: Flow | None = None
    """As it now is. None: it has to be looked up."""


class Chosen(Frozen):
    """The organization that a person looks after in a browser."""

    second_factor_due: datetime | None
    """When the grace period ends of a member who has to set up a second factor. None: nothing is asked of them."""


def caller_in(session: Session, confirmed: Confirmed) -> Caller:
    """Who is signed in in a browser by a session that has just begun: what a look-up by its cookie would find."""
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
        email_is_verified=account.email_verified_at is not None,
        belongs_to_several=confirmed.belongs_to_several,
        is_listed=confirmed.is_listed,
    )


def session_token(flow: FlowId, browser: Secret, proof: Secret, key: bytes) -> Token:
    """The cookie of the session that a flow signs in to: another one for each flow. It is derived, so that a form that is sent twice gets
    it twice: from the browser's secret, the password or code, and a key of the installation. Nobody else can derive it, and the database
    does not have it.
    """
    text = f"{flow} {browser.reveal()} {proof.reveal()}"
    return Token(urlsafe_b64encode(hmac.digest(key, text.encode("utf-8", "surrogatepass"), sha256)).rstrip(b"=").decode())
