"""Requests to connect an identity that somebody else than the person's own program may have made: an application, or a frontend elsewhere.
They lead to a page of ours, and nothing is on its way before the person presses the button there.
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
    """A living session in which somebody has asked to connect an identity, and whose it is."""

    session: SessionId
    user: UserId
    place: ServicePlace
    application: str = ""
    """The name of its service. Empty: it is no application's."""
    organization: str = ""
    """The name of the organization."""
    redirect_uri: str = ""
    """The first that the service has registered."""


class LinkRequest(Frozen, kw_only=True):
    """As its page shows it."""

    provider: str
    name: str
    """Of the provider, as people know it."""
    asker: Asker


def may_leave_at_once(caller: Caller) -> bool:
    """Whether it is the person who asks. Whoever runs an application could have somebody else consent at the provider, who would then come
    in as the person wherever they like.
    """
    return caller.context is not CallerContext.SERVICE and caller.scopes is None


def request_of(provider: str, session: SessionId, now: datetime, key: bytes) -> str:
    """What the address of the page carries. It is no secret: only the person who is signed in here gets to see the page."""
    ends = int((now + LIFETIME).timestamp())
    return f"{session}~{ends}~{_mac(provider, str(session), ends, key)}"


def session_in(request: str, provider: str, now: datetime, key: bytes) -> SessionId:
    """Raises `FlowOver` for a request that is not ours, or is too old."""
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
