"""OpenID Connect: the claims about a person, in an ID token and at the userinfo endpoint."""

from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Final

from core.domain.federation.groups import groups
from core.domain.federation.oauth.grants import Granted
from core.domain.federation.oauth.scopes import EMAIL, GROUPS, ORGANIZATION, PROFILE
from core.domain.identifiers import ClientId, OrganizationId, UserId
from core.domain.identity.sessions import context_class
from core.domain.json import Json
from core.domain.secrets import Token

PERSON_CLAIMS: Final = ("sub", "preferred_username", "email", "email_verified", "organization", "groups")


def person_claims(
    scopes: Collection[str],
    *,
    user: UserId,
    email: str,
    email_is_verified: bool,
    organization: OrganizationId | None,
    organization_slug: str,
    role: str,
) -> dict[str, Json]:
    """The claims that these scopes release (OpenID Connect Core sections 5.1 and 5.4)."""
    claims: dict[str, Json] = {"sub": str(user)}
    if PROFILE in scopes:
        claims["preferred_username"] = email
    if EMAIL in scopes:
        claims |= {"email": email, "email_verified": email_is_verified}
    if ORGANIZATION in scopes:
        claims["organization"] = {"id": str(organization), "slug": organization_slug, "role": role or None}
    if GROUPS in scopes:
        claims["groups"] = list(groups(organization_slug, role))
    return claims


def id_claims(
    granted: Granted, *, client: ClientId, access_token: Token, issuer: str, now: datetime, expires_at: datetime
) -> Mapping[str, Json]:
    """The claims of an ID token (OpenID Connect Core sections 2 and 3.1.3.6). There is no `azp`: the client is its one audience."""
    session = granted.opened.session
    context = session.context
    claims: dict[str, Json] = {
        "iss": issuer,
        "aud": str(client),
        "exp": int(expires_at.timestamp()),
        "iat": int(now.timestamp()),
        "sid": str(session.id),
        "amr": list(session.authenticated_by),
        "acr": context_class(session.authenticated_by),
        "at_hash": half_hash(access_token),
        **person_claims(
            () if granted.opened.application is None else granted.opened.application.scopes,
            user=session.user,
            email=granted.opened.email.address,
            email_is_verified=granted.email_is_verified,
            organization=context.organization,
            organization_slug=context.organization_slug,
            role=granted.role,
        ),
    }
    if session.proved.at is not None:
        claims["auth_time"] = int(session.proved.at.timestamp())
    if granted.nonce is not None:
        claims["nonce"] = granted.nonce
    return claims


def half_hash(token: Token) -> str:
    """The left half of the SHA-256 of the token's text: both of our algorithms use SHA-256."""
    return urlsafe_b64encode(sha256(token.reveal().encode()).digest()[:16]).rstrip(b"=").decode()
