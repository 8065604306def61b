"""Sessions: how long one lasts, and what its tokens say."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identifiers import ClientId, DeviceId, ImpersonationId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.proofs import UNPROVED, Proved
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Token
from core.frozen import Frozen

# From the last use.
IDLE_LIFETIME: Final = timedelta(days=30)
IMPERSONATION_LIFETIME: Final = timedelta(hours=1)
# How many sessions may stand above one. Each use of a session is recorded for all of them, and ending any of them has to find it.
GREATEST_DEPTH: Final = 32


class TokenUse(StrEnum):
    ACCESS = "access"
    CLIENT = "client"
    """An application's own: it stands for no person and no session."""
    PREAUTHENTICATION = "mfa_preauth"
    IMPERSONATION = "impersonation"


LOGOUT_TOPIC: Final = "logouts"
"""Whose doorbell rings when services are to be told of ended sessions."""


class Context(Frozen):
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


class SubscriptionState(Frozen):
    """What the tokens of a service say of their user. A user without a subscription gets these defaults."""

    plan: str = "free"
    features: tuple[str, ...] = ()
    status: str = "active"
    current_period_end: datetime | None = None


NO_SUBSCRIPTION: Final = SubscriptionState()


class Impersonated(Frozen):
    """The session is not the user's own: a platform owner acts in their name."""

    id: ImpersonationId
    by: UserId


class Parent(Frozen):
    """The session that another one is opened from. The other one ends with this one at the latest."""

    id: SessionId
    expires_at: datetime
    ends_at: datetime
    depth: int
    """How many sessions stand above it."""
    proved: Proved

    def require_room(self) -> None:
        """Raises `BadRequest` when a session opened from this one would have too many above it."""
        if self.depth >= GREATEST_DEPTH:
            raise BadRequest("This session was opened through too many other sessions: sign in again", words="session_too_deep")


class Session(Frozen):
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
    parent: SessionId | None = None
    """The session that this one was opened from and ends with. None: a person signed in for this one."""
    depth: int = 0
    proved: Proved = UNPROVED
    scopes: tuple[str, ...] | None = None
    """What an application was given, in a session in its service. None: no application was given this session."""


class Application(Frozen):
    """Whom the tokens of a session are for. The scopes may be fewer than the session's."""

    client: ClientId
    scopes: tuple[str, ...]


class OpenedSession(Frozen):
    """A session, the people that its tokens name, and its one valid refresh token."""

    session: Session
    email: Email
    is_platform_owner: bool
    refresh_token: Token
    subscription: SubscriptionState = NO_SUBSCRIPTION
    """To the service of the session's context, if it has one."""
    application: Application | None = None


class TokenPair(Frozen):
    access_token: Token
    refresh_token: Token
    expires_in: int


# The authentication context class of a session that was opened with two factors (the name that OpenID's PAPE extension gave it, which many
# relying parties know), and of any other.
TWO_FACTORS: Final = "http://schemas.openid.net/pape/policies/2007/06/multi-factor"
ONE_FACTOR: Final = "urn:postern:acr:one-factor"


def context_class(authenticated_by: Sequence[str]) -> str:
    """The `acr` of somebody who signed in by these methods (RFC 8176)."""
    return TWO_FACTORS if "mfa" in authenticated_by else ONE_FACTOR


def session_ended(user: UserId, organization: OrganizationId | None, actor: Actor, session: SessionId) -> Event:
    return Event("user.logout", actor, Target("user", str(user)), organization, details={"session_id": str(session)})


def sessions_revoked(user: UserId, actor: Actor, count: int) -> Event:
    return Event("security.sessions.revoked", actor, Target("user", str(user)), details={"sessions": count})


def session_revoked(user: UserId, actor: Actor, session: SessionId) -> Event:
    """By its person, from another one."""
    return Event("security.sessions.revoked", actor, Target("user", str(user)), details={"sessions": 1, "session_id": str(session)})


def access_claims(opened: OpenedSession, *, issuer: str, token_id: str, now: datetime, lifetime: timedelta) -> Mapping[str, Json]:
    """What an access token says. It never outlives its session. While impersonating it lasts exactly as long: both tokens end together."""
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
    # The ids, because a slug may be that of another one tomorrow, and whoever checks the token offline sees nothing but the token.
    if session.context.organization_slug:
        claims |= {"org": session.context.organization_slug, "org_id": str(session.context.organization)}
    if session.context.service_slug:
        claims |= {
            "service": session.context.service_slug,
            "service_id": str(session.context.service),
            "plan": opened.subscription.plan,
            "features": list(opened.subscription.features),
            "subscription_status": opened.subscription.status,
        }
    if opened.application is not None:
        claims |= {
            "client_id": str(opened.application.client),
            "scope": " ".join(opened.application.scopes),
            "acr": context_class(session.authenticated_by),
        }
        if session.proved.at is not None:
            claims["auth_time"] = int(session.proved.at.timestamp())
    if session.impersonated is not None:
        claims |= {
            "token_use": TokenUse.IMPERSONATION.value,
            "impersonator": str(session.impersonated.by),
            "impersonation_session": str(session.impersonated.id),
            "act": {"sub": str(session.impersonated.by)},
        }
    return claims
