"""Requests to connect an identity that came from an application, or from a frontend elsewhere, and perhaps not from the person. They lead
to a page of ours, and nothing goes to the provider before the person presses the button there.
"""

import hmac
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.callers import Caller, CallerContext
from core.domain.identity.flows import FlowOver
from core.domain.identity.upstream.sign_in import ServicePlace
from core.frozen import Frozen

LIFETIME: Final = timedelta(minutes=15)
_PARTS: Final = 3


class Asker(Frozen, kw_only=True):
    """A living session in which somebody has asked to connect an identity, and the person of this session."""

    session: SessionId
    user: UserId
    place: ServicePlace
    application: str = ""
    """The name of the application's service. Empty when no application asked."""
    organization: str = ""
    """The name of the organization."""
    redirect_uri: str = ""
    """The first redirect URI that the service has registered."""


class LinkRequest(Frozen, kw_only=True):
    """A request to connect an identity, as its page shows it."""

    provider: str
    name: str
    """The provider's name for people."""
    asker: Asker


def may_leave_at_once(caller: Caller) -> bool:
    """Whether the person asks, and not an application. The owner of an application could have somebody else consent at the provider. That
    other person could then sign in as this person everywhere.
    """
    return caller.context is not CallerContext.SERVICE and caller.scopes is None


def request_of(provider: str, session: SessionId, now: datetime, key: bytes) -> str:
    """The value in the address of the page. It is no secret: the page opens only for the person of the session."""
    ends = int((now + LIFETIME).timestamp())
    return f"{session}~{ends}~{_mac(provider, str(session), ends, key)}"


def session_in(request: str, provider: str, now: datetime, key: bytes) -> SessionId:
    """Raises `FlowOver` for a request that we did not make, or that is too old."""
    parts = request.split("~")
    try:
        if len(parts) != _PARTS or not hmac.compare_digest(_mac(provider, parts[0], int(parts[1]), key).encode(), parts[2].encode()):
            raise FlowOver
        session, ends = SessionId(UUID(parts[0])), datetime.fromtimestamp(int(parts[1]), UTC)
    except ValueError:
        raise FlowOver from None
    if ends <= now:
        raise FlowOver
    return session


def _mac(provider: str, session: str, ends: int, key: bytes) -> str:
    return hmac.digest(key, f"link {provider} {session} {ends}".encode("utf-8", "surrogatepass"), sha256).hex()
