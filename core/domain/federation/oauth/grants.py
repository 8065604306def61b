"""Grants: a client exchanges a grant for tokens (RFC 6749 sections 4 and 5)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from core.domain.claims import NO_PROFILE, StandardProfile
from core.domain.errors import BadRequest
from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.federation.oauth.oauth_errors import UnsupportedGrantType
from core.domain.identity.sessions import OpenedSession, TokenUse
from core.domain.json import Json
from core.domain.secrets import Token
from core.frozen import Frozen

AUTHORIZATION_CODE: Final = "authorization_code"
REFRESH_TOKEN: Final = "refresh_token"  # noqa: S105 - the name of a grant
CLIENT_CREDENTIALS: Final = "client_credentials"
DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"


class TokenRequest(Frozen, kw_only=True):
    """A request to the token endpoint. The grant type decides which fields count."""

    grant_type: str
    code: Token | None = None
    redirect_uri: str | None = None
    code_verifier: Token | None = None
    refresh_token: Token | None = None
    scope: str | None = None


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


def grant_type(named: str | None) -> str:
    """The named grant type. Raises `BadRequest`."""
    if named is None:
        raise BadRequest("grant_type: say what you exchange")
    return named


def no_such_grant(named: str) -> UnsupportedGrantType:
    return UnsupportedGrantType(detail=f"grant_type {named[:100]!r}")


def client_claims(client: RegisteredClient, *, issuer: str, token_id: str, now: datetime, lifetime: timedelta) -> Mapping[str, Json]:
    """The claims of an application's own token (RFC 9068). The token names the application and no person. It names no session, so no caller
    rule admits it. No session's token has its audience.
    """
    return {
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
