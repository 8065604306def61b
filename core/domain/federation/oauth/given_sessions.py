"""The sessions of applications, as token introspection (RFC 7662) and revocation (RFC 7009) find them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.formats import Json
from core.domain.identifiers import ClientId, OrganizationId, ResourceServerId, ServiceId, SessionId, UserId
from core.domain.identity.sessions import TokenUse
from core.domain.key_proofs import key_of
from core.domain.services.clients import placed
from core.frozen import Frozen

# The claims of a token that an introspection repeats.
_REPEATED: Final = frozenset(
    (
        *("iss", "sub", "aud", "exp", "iat", "jti", "sid", "client_id", "scope", "amr", "acr", "auth_time"),
        *("org", "org_id", "service", "service_id", "resource_id", "token_use"),
    )
)
_OF_A_SESSION: Final = frozenset((TokenUse.ACCESS.value, TokenUse.IMPERSONATION.value, TokenUse.RESOURCE.value, TokenUse.EXCHANGED.value))


class LivingSession(Frozen):
    """A session in a service that is valid at this moment."""

    organization: OrganizationId
    email: str


class LivingAudience(Frozen):
    """A session that is valid at this moment, at an API that is open to its application."""

    email: str
    holder: ServiceId
    """The service of the session."""
    stands: ServiceId | None
    """The service that stands for the API."""
    scopes: tuple[str, ...]
    """The granted scopes that the person still holds."""

    def may_be_asked_by(self, client: RegisteredClient) -> bool:
        """Whether this client may learn about the token: its own, or one for the API that it stands for."""
        return client.service in {self.holder, self.stands}

    def told(self, claims: Mapping[str, Json], client: RegisteredClient) -> Mapping[str, Json]:
        """What this client learns at this moment. An agent does not learn the address of the person."""
        scopes = [scope for scope in str(claims.get("scope", "")).split() if scope in self.scopes]
        return {"scope": " ".join(scopes), **({} if client.is_agent else {"username": self.email})}


class StandingApi(Frozen):
    """An API that is open to an application at this moment."""

    stands: ServiceId | None


class GivenSession(Frozen, kw_only=True):
    """The session of an application, found by one of its refresh tokens."""

    session: SessionId
    user: UserId
    email: str
    client: ClientId
    organization: OrganizationId
    service: ServiceId
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime
    is_open: bool
    """The session is valid at this moment, and the token is its current one."""
    is_agent: bool = False
    """The application acts for the person."""


class ReadToken(Frozen):
    """A token that we signed, together with what we read from its claims: resource servers ask about the same token again and again."""

    claims: Mapping[str, Json]
    session: SessionId
    user: UserId
    told: Mapping[str, Json]
    """The answer about the token while it is active."""
    resource: ResourceServerId | None
    """The API that the token is for. None for the service of the session."""
    is_exchanged: bool
    """A service got it for another token."""


def session_named(claims: Mapping[str, Json]) -> tuple[SessionId, UserId] | None:
    """The session and person of a token that we signed. None for a token without a session."""
    if claims.get("token_use") not in _OF_A_SESSION:
        return None
    return SessionId(UUID(str(claims["sid"]))), UserId(UUID(str(claims["sub"])))


def read(claims: Mapping[str, Json]) -> ReadToken | None:
    """None for a token without a session."""
    named = session_named(claims)
    return (
        None
        if named is None
        else ReadToken(claims, *named, repeated(claims), resource_named(claims), claims.get("token_use") == TokenUse.EXCHANGED.value)
    )


def resource_named(claims: Mapping[str, Json]) -> ResourceServerId | None:
    """The API that a token of ours is for."""
    named = claims.get("resource_id")
    return None if named is None else ResourceServerId(UUID(str(named)))


def client_named(claims: Mapping[str, Json]) -> ClientId | None:
    """The client of a token that we signed for an application itself. None for any other."""
    return ClientId(str(claims["sub"])) if claims.get("token_use") == TokenUse.CLIENT.value else None


def placed_by(claims: Mapping[str, Json], client: ClientId) -> ClientId | None:
    """The placed client id of a metadata client, by a token of ours. None for a token that another client got."""
    organization = claims.get("org_id")
    if organization is None or claims.get("client_id") != client:
        return None
    return placed(client, OrganizationId(UUID(str(organization))))


def is_of(claims: Mapping[str, Json], client: RegisteredClient) -> bool:
    """Whether the token is for this client's service."""
    return (claims.get("org"), claims.get("service")) == (client.context.organization_slug, client.context.service_slug)


def repeated(claims: Mapping[str, Json]) -> Mapping[str, Json]:
    """The answer about an active access token."""
    told = {name: value for name, value in claims.items() if name in _REPEATED}
    key = key_of(claims)
    told.update(active=True, token_type="Bearer" if key is None else "DPoP")
    if key is not None:
        told["cnf"] = {"jkt": key}
    acting = claims.get("act")
    if isinstance(acting, Mapping):
        told["act"] = _copied(acting)
    return told


def of_refresh_token(given: GivenSession, issuer: str, client: RegisteredClient) -> Mapping[str, Json]:
    """The answer to this client about an active refresh token. An agent does not learn the address of the person."""
    return {
        "active": True,
        "iss": issuer,
        "sub": str(given.user),
        "exp": int(given.expires_at.timestamp()),
        "iat": int(given.created_at.timestamp()),
        "sid": str(given.session),
        "client_id": given.client,
        "scope": " ".join(given.scopes),
        **({} if client.is_agent else {"username": given.email}),
        "token_use": "refresh",
        **({"act": {"sub": given.client}} if given.is_agent else {}),
    }


def _copied(acting: Mapping[str, Json]) -> dict[str, Json]:
    """The claims of a token are shared by all who ask, and cannot be changed."""
    return {name: _copied(value) if isinstance(value, Mapping) else value for name, value in acting.items()}
