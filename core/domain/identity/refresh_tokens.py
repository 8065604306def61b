"""Refresh tokens: what happens to one that is presented."""

import hmac
from base64 import urlsafe_b64encode
from datetime import datetime, timedelta
from enum import Enum, auto
from hashlib import sha256
from typing import Final

from core.domain.email import Email
from core.domain.identifiers import ClientId, ServiceId
from core.domain.identity.devices import Client
from core.domain.identity.sessions import NO_SUBSCRIPTION, OpenedSession, Session, SubscriptionState
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Token
from core.frozen import Frozen

# For this long a client that lost the answer to its refresh may ask again, and gets the same successor.
GRACE: Final = timedelta(seconds=10)
LONGEST_REFRESH_TOKEN: Final = 1000


class PresentedRefreshToken(Frozen):
    """A refresh token as it was found when it was presented, and whether that request has just rotated it."""

    session: Session
    email: Email
    is_platform_owner: bool
    is_live: bool
    """The session has neither ended nor been revoked, and the accounts behind it are still allowed to use it."""
    is_admitted: bool
    """To the service of the session; a session in the organization itself admits its members."""
    organization_is_active: bool
    rotated: bool
    rotated_at: datetime | None
    """When it was rotated, if an earlier request did that."""
    rotated_by: bytes | None
    subscription: SubscriptionState = NO_SUBSCRIPTION
    email_is_verified: bool = False
    role: str = ""
    """In the organization of the session; empty for a person who is no member."""
    owes_second_factor: bool = False
    """That organization requires one of its members, and the time in which to set it up is over."""
    client: ClientId | None = None
    """The application that the session was given to."""


class Holder(Frozen):
    """The application that presents a refresh token, and the scopes that it wants this time; without them, all of the session's. If it is
    public, it has not shown who it is.
    """

    client: ClientId
    service: ServiceId
    scopes: tuple[str, ...] = ()
    is_public: bool = False


class Continued(Frozen):
    """A session that goes on, and what its ID token says of its person."""

    opened: OpenedSession
    email_is_verified: bool
    role: str


class BeyondScopes(Exception):
    """The application asks for scopes that the session was not opened with."""


class RefreshOutcome(Enum):
    GRANTED = auto()
    REPEATED = auto()
    """A repeat by a client that lost the answer: it gets the same successor."""
    CONTENDED = auto()
    """Another request is rotating it at this moment: look again."""
    ENDED = auto()
    REUSED = auto()
    """Two clients have this token, and one of them must not: the session ends."""
    NOT_A_MEMBER = auto()
    BEYOND_SCOPES = auto()
    ORGANIZATION_NOT_ACTIVE = auto()
    SECOND_FACTOR_REQUIRED = auto()


def refresh_outcome(presented: PresentedRefreshToken, by: bytes, now: datetime, holder: Holder | None = None) -> RefreshOutcome:
    if not presented.is_live:
        return RefreshOutcome.ENDED
    repeated = False
    if presented.rotated_at is not None:
        repeated = now - presented.rotated_at <= GRACE and presented.rotated_by == by
        if not repeated:
            return RefreshOutcome.REUSED
    forbidden = _forbidden(presented, holder)
    if forbidden is not None:
        return forbidden
    if repeated:
        return RefreshOutcome.REPEATED
    return RefreshOutcome.GRANTED if presented.rotated else RefreshOutcome.CONTENDED


def _forbidden(presented: PresentedRefreshToken, holder: Holder | None) -> RefreshOutcome | None:
    if presented.session.context.organization is not None:
        if not presented.is_admitted:
            return RefreshOutcome.NOT_A_MEMBER
        if not presented.organization_is_active:
            return RefreshOutcome.ORGANIZATION_NOT_ACTIVE
        if presented.owes_second_factor:
            return RefreshOutcome.SECOND_FACTOR_REQUIRED
    if holder is not None and not set(holder.scopes) <= set(presented.session.scopes or ()):
        return RefreshOutcome.BEYOND_SCOPES
    return None


def successor(token: Token, key: bytes) -> Token:
    """The successor of a refresh token. It is derived from the token and a key of the installation. So a client that lost the answer gets
    the same successor again, and nothing that is stored lets anyone in.
    """
    derived = hmac.digest(key, token.reveal().encode(), sha256)
    return Token(urlsafe_b64encode(derived).rstrip(b"=").decode())


def fingerprint(client: Client) -> bytes:
    """Shows that a repeated refresh comes from the same device: its device token, or, for a client that keeps none, what the client says
    about itself. Addresses do not count: a client that loses an answer has often just changed networks.
    """
    if client.device_token is not None:
        return sha256(b"token " + client.device_token.digest()).digest()
    return sha256(b"agent " + client.user_agent.encode("utf-8", "surrogatepass")).digest()


def token_reused(session: Session, actor: Actor) -> Event:
    # The actor is exactly what is unknown here.
    return Event(
        "security.refresh_token.reused",
        actor,
        Target("user", str(session.user)),
        session.context.organization,
        {"session_id": str(session.id)},
        success=False,
    )
