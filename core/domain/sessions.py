"""Sessions: how long one lasts, what its tokens say, what becomes of a refresh token that is presented, and the caller that a valid
session stands for.
"""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from hashlib import sha256
from typing import Final

from core.domain.devices import Client
from core.domain.email import Email
from core.domain.events import Actor, Event, Target
from core.domain.identifiers import DeviceId, ImpersonationId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.json import Json
from core.domain.secrets import Token

# From the last use.
IDLE_LIFETIME: Final = timedelta(days=30)
# A client that lost the answer to its refresh may ask again for so long, and gets the same successor.
GRACE: Final = timedelta(seconds=10)
IMPERSONATION_LIFETIME: Final = timedelta(hours=1)
LONGEST_REFRESH_TOKEN: Final = 1000
NOT_A_MEMBER: Final = "You are not a member of this organization"


class TokenUse(StrEnum):
    ACCESS = "access"
    PREAUTHENTICATION = "mfa_preauth"
    IMPERSONATION = "impersonation"


@dataclass(frozen=True, slots=True)
class Context:
    """Where a session is: on the platform, in an organization, or in one of its services."""

    organization: OrganizationId | None = None
    organization_slug: str = ""
    service: ServiceId | None = None
    service_slug: str = ""

    @property
    def audience(self) -> str:
        if self.service_slug:
            return f"service:{self.organization_slug}/{self.service_slug}"
        return f"org:{self.organization_slug}" if self.organization_slug else "platform"


PLATFORM = Context()


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """What the tokens of a service say of their user: without a subscription, what everybody has."""

    plan: str = "free"
    features: tuple[str, ...] = ()
    status: str = "active"
    current_period_end: datetime | None = None


NO_SUBSCRIPTION: Final = SubscriptionState()


@dataclass(frozen=True, slots=True)
class Impersonated:
    """The session is not its user's own: a platform owner acts in their name."""

    id: ImpersonationId
    by: UserId


@dataclass(frozen=True, slots=True)
class Session:
    id: SessionId
    user: UserId
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    ends_at: datetime
    device: DeviceId | None = None
    context: Context = PLATFORM
    authenticated_by: tuple[str, ...] = ()
    impersonated: Impersonated | None = None


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session with whom its tokens speak of, and the one refresh token that is good for it now."""

    session: Session
    email: Email
    is_platform_owner: bool
    refresh_token: Token
    subscription: SubscriptionState = NO_SUBSCRIPTION
    """To the service of the session's context, if it has one."""


@dataclass(frozen=True, slots=True)
class TokenPair:
    access_token: Token
    refresh_token: Token
    expires_in: int


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is calling: the token's claims, confirmed by the database for this request."""

    user: UserId
    email: Email
    session: SessionId
    is_platform_owner: bool
    organization: str = ""
    service: str = ""
    impersonator: UserId | None = None
    authentication_methods: tuple[str, ...] = field(default=())
    device: DeviceId | None = None
    organization_id: OrganizationId | None = None
    role: str = ""
    """In the organization; empty for whoever is not, or no longer, a member of it."""
    organization_is_active: bool = False


class Participation(Enum):
    """How a caller must stand to the organization that their token names, if it names one."""

    ACTIVE = auto()
    """A member of it, and it is active. End users of its services need not be members."""
    MEMBER = auto()
    """The same, but it may be suspended or still pending."""


@dataclass(frozen=True, slots=True)
class Presented:
    """A refresh token as it is known at the moment that somebody presents it, and whether that has just rotated it."""

    session: Session
    email: Email
    is_platform_owner: bool
    is_live: bool
    """The session neither ended nor was revoked, and its people are who they were."""
    is_member: bool
    organization_is_active: bool
    rotated: bool
    rotated_at: datetime | None
    """When it was rotated before."""
    rotated_by: bytes | None
    subscription: SubscriptionState = NO_SUBSCRIPTION


class RefreshOutcome(Enum):
    GRANTED = auto()
    REPEATED = auto()
    """Once more, by a client that lost the answer: it gets the same one."""
    CONTENDED = auto()
    """Another request is about to rotate it: look again."""
    ENDED = auto()
    REUSED = auto()
    """Two have this token, and one of them should not: the session ends."""
    NOT_A_MEMBER = auto()
    ORGANIZATION_NOT_ACTIVE = auto()


def refresh_outcome(presented: Presented, by: bytes, now: datetime) -> RefreshOutcome:
    if not presented.is_live:
        return RefreshOutcome.ENDED
    repeated = False
    if presented.rotated_at is not None:
        repeated = now - presented.rotated_at <= GRACE and presented.rotated_by == by
        if not repeated:
            return RefreshOutcome.REUSED
    if presented.session.context.organization is not None:
        if not presented.is_member:
            return RefreshOutcome.NOT_A_MEMBER
        if not presented.organization_is_active:
            return RefreshOutcome.ORGANIZATION_NOT_ACTIVE
    if repeated:
        return RefreshOutcome.REPEATED
    return RefreshOutcome.GRANTED if presented.rotated else RefreshOutcome.CONTENDED


def successor(token: Token, key: bytes) -> Token:
    """What a refresh token is exchanged for. It follows from the token and a key of the installation: so a client that lost the answer can
    be given the same one again, and nothing that is stored lets anybody in.
    """
    derived = hmac.digest(key, token.reveal().encode(), sha256)
    return Token(urlsafe_b64encode(derived).rstrip(b"=").decode())


def fingerprint(client: Client) -> bytes:
    """By what a repeated refresh shows that it comes from the same device: its device token, or what one that keeps none says of itself.
    Addresses do not count: a client that loses an answer is often one that changes networks.
    """
    if client.device_token is not None:
        return sha256(b"token " + client.device_token.digest()).digest()
    return sha256(b"agent " + client.user_agent.encode("utf-8", "surrogatepass")).digest()


def session_ended(user: UserId, actor: Actor, session: SessionId) -> Event:
    return Event("user.logout", actor, Target("user", str(user)), details={"session_id": str(session)})


def sessions_revoked(user: UserId, actor: Actor, count: int) -> Event:
    return Event("security.sessions.revoked", actor, Target("user", str(user)), details={"sessions": count}, published=False)


def token_reused(session: Session, actor: Actor) -> Event:
    # Whose doing it was is just what is not known.
    return Event(
        "security.refresh_token.reused",
        actor,
        Target("user", str(session.user)),
        session.context.organization,
        {"session_id": str(session.id)},
        success=False,
        published=False,
    )


def access_claims(opened: OpenedSession, *, issuer: str, token_id: str, now: datetime, lifetime: timedelta) -> Mapping[str, Json]:
    """What an access token says. Never longer than its session, and while impersonating as long: both tokens end together."""
    session = opened.session
    expires_at = session.ends_at if session.impersonated is not None else min(now + lifetime, session.ends_at)
    claims: dict[str, Json] = {
        "iss": issuer,
        "sub": str(session.user),
        "aud": session.context.audience,
        "exp": int(expires_at.timestamp()),
        "iat": int(now.timestamp()),
        "jti": token_id,
        "sid": str(session.id),
        "email": str(opened.email),
        "is_platform_owner": opened.is_platform_owner,
        "token_use": TokenUse.ACCESS.value,
        "amr": list(session.authenticated_by),
    }
    if session.context.organization_slug:
        claims["org"] = session.context.organization_slug
    if session.context.service_slug:
        claims |= {
            "service": session.context.service_slug,
            "plan": opened.subscription.plan,
            "features": list(opened.subscription.features),
            "subscription_status": opened.subscription.status,
        }
    if session.impersonated is not None:
        claims |= {
            "token_use": TokenUse.IMPERSONATION.value,
            "impersonator": str(session.impersonated.by),
            "impersonation_session": str(session.impersonated.id),
            "act": {"sub": str(session.impersonated.by)},
        }
    return claims
