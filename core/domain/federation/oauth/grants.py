"""Grants: a client exchanges a grant for tokens (RFC 6749 sections 4 and 5)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from core.domain.audiences import ONE_AT_A_TIME, TokenAudience
from core.domain.claims import NO_PROFILE, StandardProfile
from core.domain.errors import BadRequest
from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.federation.oauth.oauth_errors import InvalidTarget, UnsupportedGrantType
from core.domain.identifiers import UserId
from core.domain.identity.sessions import OpenedSession, TokenUse
from core.domain.json import Json
from core.domain.key_proofs.proofs import KeyThumbprint, bound
from core.domain.secrets import Token
from core.frozen import Frozen

AUTHORIZATION_CODE: Final = "authorization_code"
REFRESH_TOKEN: Final = "refresh_token"  # noqa: S105 - the name of a grant
CLIENT_CREDENTIALS: Final = "client_credentials"
DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - the name of a grant
CIBA: Final = "urn:openid:params:grant-type:ciba"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class TokenRequest(Frozen, kw_only=True):
    """A request to the token endpoint. The grant type decides which fields count."""

    grant_type: str
    code: Token | None = None
    redirect_uri: str | None = None
    code_verifier: Token | None = None
    refresh_token: Token | None = None
    auth_req_id: Token | None = None
    """Names a request from afar."""
    assertion: Token | None = None
    """The signed token of an issuer outside (RFC 7523)."""
    scope: str | None = None
    resources: Sequence[str] = ()
    """The identifiers of APIs, as the request names them."""
    subject_token: Token | None = None
    subject_token_type: str | None = None
    actor_token: Token | None = None
    actor_token_type: str | None = None
    requested_token_type: str | None = None
    audience: str | None = None
    key: KeyThumbprint | None = None
    """The key of which the request has shown a proof: the tokens are bound to it."""


class Granted(Frozen):
    """A session that the client got, and more data for its ID token."""

    opened: OpenedSession
    email_is_verified: bool
    role: str
    """The person's role in the organization of the service. Empty for a person who is no member."""
    nonce: str | None = None
    profile: StandardProfile = NO_PROFILE


class IssuedTokens(Frozen):
    access_token: Token
    expires_in: int
    scope: str | None = None
    refresh_token: Token | None = None
    id_token: Token | None = None
    issued_token_type: str | None = None
    """Only an exchange says it (RFC 8693 section 2.2.1)."""
    acts_for: UserId | None = None
    """The person, if the client is an agent."""
    key: KeyThumbprint | None = None
    """The access token is bound to it."""


def grant_type(named: str | None) -> str:
    """The named grant type. Raises `BadRequest`."""
    if named is None:
        raise BadRequest("grant_type: say what you exchange")
    return named


def no_such_grant(named: str) -> UnsupportedGrantType:
    return UnsupportedGrantType(detail=f"grant_type {named[:100]!r}")


def one_resource(named: Sequence[str]) -> str | None:
    """The API that a token request names. Raises `InvalidTarget` when it names several: a token is for one."""
    if len(set(named)) > 1:
        raise InvalidTarget(ONE_AT_A_TIME)
    return named[0] if named else None


def client_claims(
    client: RegisteredClient,
    audience: TokenAudience | None,
    *,
    issuer: str,
    token_id: str,
    now: datetime,
    lifetime: timedelta,
    key: KeyThumbprint | None = None,
) -> Mapping[str, Json]:
    """The claims of an application's own token (RFC 9068). The token names the application and no person. It names no session, so no caller
    rule admits it. No session's token has its audience, except at an API that both may ask for: there, `sub` is the client.
    """
    claims: dict[str, Json] = {
        "iss": issuer,
        "sub": client.client,
        "aud": f"services:{client.context.organization_slug}",
        "exp": int((now + lifetime).timestamp()),
        "iat": int(now.timestamp()),
        "jti": token_id,
        "client_id": client.client,
        "token_use": TokenUse.CLIENT.value,
        "org": client.context.organization_slug,
        "org_id": str(client.context.organization),
        "service": client.context.service_slug,
        "service_id": str(client.context.service),
    }
    if audience is not None:
        claims |= {"aud": audience.identifier, "resource_id": str(audience.id), "scope": " ".join(audience.scopes)}
    return bound(claims, key)
