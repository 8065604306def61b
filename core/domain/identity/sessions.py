"""Sessions: their lifetimes, the claims of their tokens, and the list of a user's own sessions."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.claims import (
    NO_FACTS,
    OF_ACCOUNT,
    OF_TOKEN,
    ClaimSource,
    DescribedPerson,
    Said,
    ServiceFacts,
    ToldClaim,
    access_told,
    fitting_access_token,
    values,
)
from core.domain.errors import BadRequest, Forbidden
from core.domain.formats import Json
from core.domain.identifiers import ClientId, DeviceId, ImpersonationId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.devices import Location
from core.domain.identity.proofs import UNPROVED, Proved
from core.domain.identity.upstream.directory_visits import DirectoryFactor
from core.domain.key_proofs import KeyThumbprint
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Token
from core.domain.tokens import TokenAlgorithm, TokenAudience
from core.frozen import Frozen

# Counted from the last use.
IDLE_LIFETIME: Final = timedelta(days=30)
IMPERSONATION_LIFETIME: Final = timedelta(hours=1)
# The greatest number of ancestors of a session. Each use of a session is recorded for all of its ancestors, and ending any of them has to
# find the session.
GREATEST_DEPTH: Final = 32
# The sentence for a refused agent.
AGENTS_FORBIDDEN: Final = "AI agents are blocked in this organization"
# Of an agent's access tokens.
AGENT_TOKEN_LIFETIME: Final = timedelta(minutes=5)


class AgentsForbidden(Forbidden):
    """An agent comes with a refresh token, and the organization lets agents act for its people no more."""

    text = AGENTS_FORBIDDEN

    def __init__(self) -> None:
        super().__init__(words="agents_forbidden", detail=self.text)


class TokenUse(StrEnum):
    ACCESS = "access"
    CLIENT = "client"
    """An application's own token. It stands for no person and no session."""
    RESOURCE = "resource"
    """A session's token for an API of an organization. It opens nothing of ours but userinfo."""
    EXCHANGED = "exchanged"
    """A token for an API that a service got for another token, to act in its person's name. It opens nothing of ours."""
    PROXY = "proxy"
    """What an application behind a proxy is told of a request. It opens nothing of ours."""
    MANAGEMENT_KEY = "management_key"
    """A workload's token with the rights of a management key. It stands for no person and no session."""
    PREAUTHENTICATION = "mfa_preauth"
    IMPERSONATION = "impersonation"


LOGOUT_TOPIC: Final = "logouts"
"""The doorbell's topic for ended sessions. It wakes the actor that tells services about them."""


class Context(Frozen):
    """The place of a session: the platform, an organization, or one of its services."""

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
    """The subscription of a service's user, for the tokens of the service. A user without a subscription gets these defaults."""

    plan: str = "free"
    features: tuple[str, ...] = ()
    status: str = "active"
    current_period_end: datetime | None = None


NO_SUBSCRIPTION: Final = SubscriptionState()


class Impersonated(Frozen):
    """The session is not the user's own: a platform owner acts in the user's name."""

    id: ImpersonationId
    by: UserId


MOST_ACTORS: Final = 2
"""Of one session, beside the person's own application. An API that hears of a third would trust a service that it knows nothing of."""


class ActingClient(Frozen):
    """Who acts in the person's name beside the person's own application (RFC 8693 section 4.1). A session keeps it, and its tokens say it
    in `act`: the client that acts now, and within it the one through which the session came.
    """

    client: ClientId
    through: "ActingClient | None" = None
    """The one who acted before."""

    @property
    def depth(self) -> int:
        return 1 if self.through is None else 1 + self.through.depth

    @property
    def claim(self) -> Mapping[str, Json]:
        """The claim `act`, which a session keeps in this form, too."""
        return {"sub": self.client} if self.through is None else {"sub": self.client, "act": self.through.claim}

    @property
    def has_room(self) -> bool:
        """Whether one more may act through this one."""
        return self.depth < MOST_ACTORS


def acting(kept: Mapping[str, Json] | None) -> ActingClient | None:
    """Reads what `claim` made. None when nobody acts but the person's own application."""
    if kept is None:
        return None
    through = kept.get("act")
    return ActingClient(ClientId(str(kept["sub"])), acting(through) if isinstance(through, Mapping) else None)


class Parent(Frozen):
    """The session that another one is opened from. The child ends with its parent at the latest."""

    id: SessionId
    expires_at: datetime
    ends_at: datetime
    depth: int
    """The number of this session's ancestors."""
    proved: Proved
    factor: DirectoryFactor | None = None
    """What its directory has stated of a second factor. The sessions of the same person that it opens have it, too."""

    def require_room(self) -> None:
        """Raises `BadRequest` when a session opened from this one would have too many ancestors."""
        if self.depth >= GREATEST_DEPTH:
            raise BadRequest("This session was started through too many other sessions: sign in again", words="session_too_deep")


class Doors(Frozen):
    """What the rules for risk of organizations have said of the sign-in of a session: see `core.domain.identity.risk_policies`."""

    let_in_by: tuple[UUID, ...] = ()
    """Organizations, and services for which one has rules of their own."""
    kept_out_by: tuple[UUID, ...] = ()


NOT_JUDGED: Final = Doors()


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
    """The session that this one was opened from and ends with. None when a person signed in for this session."""
    depth: int = 0
    proved: Proved = UNPROVED
    scopes: tuple[str, ...] | None = None
    """The scopes of an application, in a session in its service. None when the session was not given to an application."""
    directory_context: str = ""
    """The authentication context that a directory of the service's own organization has stated for this sign-in."""
    opened_through: UUID | None = None
    """The organization's own provider by which the person signed in. None also for sessions that were opened from another one."""
    idle: timedelta = IDLE_LIFETIME
    """It ends when nobody uses it for so long. What organizations say, the statement that stores it adds."""
    most: int | None = None
    """How many of the person's own sign-ins may be open at once, if the installation says it."""
    doors: Doors = NOT_JUDGED
    key: KeyThumbprint | None = None
    """It began bound to this key, and its refresh tokens stay so. None when whoever has a token of it may use it."""

    @property
    def is_own(self) -> bool:
        """The person signed in for themselves, and for no organization or service."""
        return self.context.organization is None and self.parent is None and self.impersonated is None

    @property
    def context_class(self) -> str:
        """The `acr` of the session's tokens. Two factors of ours are more than anything that a directory can state, and no directory can
        state our own classes.
        """
        ours, theirs = context_class(self.authenticated_by), self.directory_context
        return ours if ours == TWO_FACTORS or theirs in {"", ONE_FACTOR, TWO_FACTORS} else theirs


class Application(Frozen):
    """The application that receives the tokens of a session. Its scopes may be fewer than the session's."""

    client: ClientId
    scopes: tuple[str, ...]
    algorithm: TokenAlgorithm = TokenAlgorithm.ES256
    """Signs its access tokens."""
    is_agent: bool = False
    """It acts for the person of the session."""


def minutes_kept(idle: timedelta) -> int | None:
    """The minutes that a session keeps beside it. None for `IDLE_LIFETIME`, which needs no number."""
    return None if idle >= IDLE_LIFETIME else int(idle.total_seconds()) // 60


class OpenedSession(Frozen):
    """A session, the people that its tokens name, and its one valid refresh token."""

    session: Session
    email: Email
    is_platform_owner: bool
    refresh_token: Token
    subscription: SubscriptionState = NO_SUBSCRIPTION
    """The subscription to the service of the session's context, if the context has one."""
    application: Application | None = None
    tells_more: bool = False
    """The service has claims or roles of its own, or the person is in a team: the facts have to be read before the tokens are made."""
    facts: ServiceFacts = NO_FACTS
    audience: TokenAudience | None = None
    """The API that the access token is for. None for the service of the session's context itself."""


class TokenPair(Frozen):
    access_token: Token
    refresh_token: Token
    expires_in: int


# The authentication context classes. The first is for a session that was opened with two factors. Many relying parties know its name from
# OpenID's PAPE extension. The second is for any other session.
TWO_FACTORS: Final = "http://schemas.openid.net/pape/policies/2007/06/multi-factor"
ONE_FACTOR: Final = "urn:postern:acr:one-factor"


def context_class(authenticated_by: Sequence[str]) -> str:
    """The `acr` of a person who signed in by these methods (RFC 8176)."""
    return TWO_FACTORS if "mfa" in authenticated_by else ONE_FACTOR


def session_ended(user: UserId, organization: OrganizationId | None, actor: Actor, session: SessionId) -> Event:
    return Event("user.logout", actor, Target("user", str(user)), organization, details={"session_id": str(session)})


def sessions_revoked(user: UserId, actor: Actor, count: int) -> Event:
    return Event("security.sessions.revoked", actor, Target("user", str(user)), details={"sessions": count})


def session_revoked(user: UserId, actor: Actor, session: SessionId) -> Event:
    """The person ended this session from another one."""
    return Event("security.sessions.revoked", actor, Target("user", str(user)), details={"sessions": 1, "session_id": str(session)})


def resource_claims(
    session: Session,
    application: Application,
    audience: TokenAudience,
    *,
    issuer: str,
    token_id: str,
    now: datetime,
    lifetime: timedelta,
) -> Mapping[str, Json]:
    """The claims of an access token for an API (RFC 9068). The API learns who acts, through which application, and what it may do. It gets
    none of the person's values: what an application may see of a person, the application asks for itself.
    """
    longest = audience.lifetime or lifetime
    if application.is_agent:
        longest = min(longest, AGENT_TOKEN_LIFETIME)
    expires_at = min(now + longest, session.ends_at)
    claims: dict[str, Json] = {
        "iss": issuer,
        "sub": str(session.user),
        "aud": audience.identifier,
        "exp": int(expires_at.timestamp()),
        "iat": int(now.timestamp()),
        "jti": token_id,
        "sid": str(session.id),
        "client_id": application.client,
        "scope": " ".join(audience.scopes),
        "token_use": TokenUse.RESOURCE.value,
        "resource_id": str(audience.id),
        "org": session.context.organization_slug,
        "org_id": str(session.context.organization),
        "service": session.context.service_slug,
        "service_id": str(session.context.service),
        "amr": list(session.authenticated_by),
        "acr": session.context_class,
    }
    shown_at = session.proved.shown_at
    if shown_at is not None and not session.proved.is_silent:
        claims["auth_time"] = int(shown_at.timestamp())
    if application.is_agent:
        claims["act"] = {"sub": application.client}
    return claims


def access_claims(opened: OpenedSession, *, issuer: str, token_id: str, now: datetime, lifetime: timedelta) -> Mapping[str, Json]:
    """The claims of an access token. The token never outlives its session. During an impersonation it lasts exactly as long as the session:
    both end together.
    """
    claims = _access_claims(opened, issuer=issuer, token_id=token_id, now=now, lifetime=lifetime)
    # A token without facts tells its claims as they are. Most are such tokens, and making a value of each claim costs more than the claims.
    return claims if opened.facts is NO_FACTS else values(_access_said(opened, claims))


def access_said(opened: OpenedSession, *, issuer: str, token_id: str, now: datetime, lifetime: timedelta) -> Sequence[Said]:
    """The claims of an access token, each with its source."""
    return _access_said(opened, _access_claims(opened, issuer=issuer, token_id=token_id, now=now, lifetime=lifetime))


def _access_claims(opened: OpenedSession, *, issuer: str, token_id: str, now: datetime, lifetime: timedelta) -> dict[str, Json]:
    """Without those that are made of facts."""
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
    # The ids are there because a slug may belong to another organization or service tomorrow, and a server that checks the token offline
    # sees nothing but the token.
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
            "client_id": opened.application.client,
            "scope": " ".join(opened.application.scopes),
            "acr": session.context_class,
        }
        shown_at = session.proved.shown_at
        if shown_at is not None and not session.proved.is_silent:
            claims["auth_time"] = int(shown_at.timestamp())
    if session.impersonated is not None:
        claims |= {
            "token_use": TokenUse.IMPERSONATION.value,
            "impersonator": str(session.impersonated.by),
            "impersonation_session": str(session.impersonated.id),
            "act": {"sub": str(session.impersonated.by)},
        }
    return claims


def _access_said(opened: OpenedSession, claims: Mapping[str, Json]) -> Sequence[Said]:
    said: list[Said] = [ToldClaim(name, value, _SOURCES.get(name, OF_TOKEN), scope=_OWN.get(name)) for name, value in claims.items()]
    if opened.facts is NO_FACTS:
        return said
    person = described(opened)
    scopes = () if opened.application is None else opened.application.scopes
    return fitting_access_token([*said, *access_told(person, scopes)])


def told_at_login(person: DescribedPerson, _issuer: str) -> Mapping[str, Json]:
    """What a service learns of somebody who signs in to it at our API. No scopes are asked for there: the access token tells it."""
    said = [ToldClaim("sub", str(person.user), OF_ACCOUNT), ToldClaim("email", person.email.address, OF_ACCOUNT, scope="email")]
    return values(fitting_access_token([*said, *access_told(person, ())]))


# The person's own values, which an access token has in any case, and the scopes by which a page says so.
_OWN: Final[Mapping[str, str]] = {"email": "email", "is_platform_owner": "openid"}
_SOURCES: Final[Mapping[str, str]] = {
    "sub": OF_ACCOUNT,
    "email": OF_ACCOUNT,
    "is_platform_owner": OF_ACCOUNT,
    "org": ClaimSource.ORGANIZATION,
    "org_id": ClaimSource.ORGANIZATION,
    "plan": ClaimSource.PLAN,
    "features": ClaimSource.FEATURES,
    "subscription_status": ClaimSource.PLAN,
}


def described(opened: OpenedSession) -> DescribedPerson:
    """The person of a session in a service, as far as an access token tells of people."""
    context, facts = opened.session.context, opened.facts
    return DescribedPerson(
        user=opened.session.user,
        email=opened.email,
        email_is_verified=False,
        organization=context.organization,
        organization_slug=context.organization_slug,
        role=facts.role,
        facts=facts,
    )


class OwnSession(Frozen, kw_only=True):
    """A living session in the user's own list. Its names state what it is for: an organization, one of its applications, or, without names,
    the platform.
    """

    id: SessionId
    created_at: datetime
    last_seen_at: datetime
    ends_at: datetime
    """When the session ends if nobody uses it again."""
    device: DeviceId | None
    device_name: str
    location: Location | None
    """The place of the device's last sign-in."""
    organization: str
    service: str
    impersonated: bool
    """A platform owner acts in the person's name in this session."""
    opened_here: bool
    """The session of the person who looks, or a session that it was opened from, or one that was opened from it."""
    is_bound: bool = False
    """Its cookie counts in the browser alone that has the key."""


class OwnSessionList(Frozen):
    """One page of a person's sessions, the last used first."""

    sessions: tuple[OwnSession, ...]
    total: int
    others: int
    """The number of sessions that have nothing to do with the session of the person who looks. "Sign out everywhere else" ends these."""
