"""OpenID Connect: the claims about a person, and the discovery documents."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Final

import msgspec

from core.domain.errors import TokenInvalid, Unauthorized
from core.domain.federation.oauth.metadata import USERINFO_ENDPOINT, metadata
from core.domain.federation.oauth.oauth_errors import InsufficientScope
from core.domain.federation.oauth.oidc import person_claims
from core.domain.identity.callers import Caller
from core.domain.languages import Language
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.callers import ANYONE, OPENID_SESSION
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.cors import Origins
from entrypoints.http.machinery.endpoints import Statement, endpoint
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import UNLIMITED


class OrganizationClaims(msgspec.Struct, frozen=True):
    """The organization of the service."""

    id: str
    """The organization's id."""
    slug: Annotated[str, example("acme")]
    """The organization's slug."""
    role: Annotated[str, example("member")] | None
    """The person's role in the organization; null if the person is not a member."""


class PersonClaims(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claims that the granted scopes allow (OpenID Connect Core section 5.3.2)."""

    sub: Annotated[str, example("0199d3a0-0000-7000-8000-000000000002")]
    """The person's id, which never changes."""
    preferred_username: Annotated[str, example("ada@example.org")] | None = None
    """The address that the person signs in with. With the scope `profile`."""
    email: Annotated[str, example("ada@example.org")] | None = None
    """The person's address. With the scope `email`."""
    email_verified: Annotated[bool, example(True)] | None = None
    """Whether the person has proved that the address is theirs. With the scope `email`."""
    organization: OrganizationClaims | None = None
    """The organization of the service. With the scope `organization`."""
    groups: Annotated[Sequence[str], example(["acme/member"])] | None = None
    """The person's role in that organization, as `organization/role`; empty if the person is not a member. With the scope `groups`."""


class PostedToken(msgspec.Struct, frozen=True, kw_only=True):
    """The access token, if the `Authorization` header does not have it (RFC 6750 section 2.2)."""

    access_token: Token | None = None
    """The access token."""


_PUBLIC: Final[Statement] = {
    "caller": ANYONE,
    "limit": UNLIMITED,
    "cache": "public, max-age=300",
    "origins": Origins.ALL,
    "tags": ("oauth",),
}


@endpoint.get(
    USERINFO_ENDPOINT, caller=OPENID_SESSION, limit=UNLIMITED, refuses=(InsufficientScope,), tags=("oauth",), origins=Origins.CLIENTS
)
async def userinfo(call: Call, _postern: Postern) -> PersonClaims:
    """Get the claims that the granted scopes allow

    For access tokens with the scope `openid`.
    """
    return _claims(call.caller)


@endpoint.post(
    USERINFO_ENDPOINT,
    caller=OPENID_SESSION,
    limit=UNLIMITED,
    refuses=(InsufficientScope,),
    accepts=Form(),
    tags=("oauth",),
    origins=Origins.CLIENTS,
)
async def userinfo_by_post(call: Call[PostedToken], postern: Postern) -> PersonClaims:
    """Get the claims that the granted scopes allow, by POST

    The token may be in the header or in the form (OpenID Connect Core section 5.3.1).
    """
    caller = call.presented
    if caller is None:
        posted = call.body.access_token
        if posted is None:
            raise Unauthorized
        text = posted.reveal()
        if not text.isascii():
            raise TokenInvalid
        caller = await OPENID_SESSION.resolve(text, call.request, postern)
    return _claims(caller)


@endpoint.get("/.well-known/openid-configuration", **_PUBLIC)
def openid_configuration(_call: Call, postern: Postern) -> bytes:
    """Get the addresses of all endpoints, and the supported features (OpenID Connect Discovery)"""
    return _discovery(postern.foundation.public_url, postern.federation.grants.types)


@endpoint.get("/.well-known/oauth-authorization-server", **_PUBLIC)
def authorization_server_metadata(_call: Call, postern: Postern) -> bytes:
    """Get the same document under OAuth's name for it (RFC 8414)"""
    return _discovery(postern.foundation.public_url, postern.federation.grants.types)


@lru_cache(maxsize=4)
def _discovery(issuer: str, grants: tuple[str, ...]) -> bytes:
    return msgspec.json.encode(metadata(issuer, grants, [language.value for language in Language]))


def _claims(caller: Caller) -> PersonClaims:
    claims = person_claims(
        caller.scopes or (),
        user=caller.user,
        email=caller.email.address,
        email_is_verified=caller.email_is_verified,
        organization=caller.organization_id,
        organization_slug=caller.organization,
        role=caller.role,
    )
    return msgspec.convert(claims, PersonClaims)
