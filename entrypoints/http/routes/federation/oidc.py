"""OpenID Connect: the claims about a person, and the discovery documents."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, ClassVar, Final, cast

import msgspec

from core.domain.errors import TokenInvalid, Unauthorized
from core.domain.federation.oauth.oidc import USERINFO_ENDPOINT, metadata
from core.domain.federation.oauth.refusals import InsufficientScope
from core.domain.identity.callers import Caller
from core.domain.languages import Language
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import Origins
from entrypoints.http.machinery.callers import ANYONE, OPENID_SESSION
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Statement, endpoint
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import UNLIMITED


class OrganizationClaims(msgspec.Struct, frozen=True):
    """The organization of the service."""

    id: str
    """The organization's ID."""
    slug: Annotated[str, example("acme")]
    """The organization's slug."""
    role: Annotated[str, example("member")] | None
    """The person's role in the organization; null if the person is not a member."""


class PersonClaims(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claims of the granted scopes (OpenID Connect Core section 5.3.2), and the custom claims of the service under their own names."""

    has_other_names: ClassVar[bool] = True

    sub: Annotated[str, example("0199d3a0-0000-7000-8000-000000000002")]
    """The person's ID, which never changes."""
    name: Annotated[str, example("Ada Lovelace")] | None = None
    """The person's full name. With the scope `profile`, as all claims of the profile. Claims that the person has not set are absent."""
    given_name: Annotated[str, example("Ada")] | None = None
    """The given name."""
    family_name: Annotated[str, example("Lovelace")] | None = None
    """The family name."""
    preferred_username: Annotated[str, example("ada")] | None = None
    """The username. If the person has none and the scope `email` is granted: the email address."""
    picture: Annotated[str, example("https://sso.example.org/pictures/9f1c0f4e-4a57-4b41-8b0b-3f2a0f5f9d2e")] | None = None
    """The URL of the person's picture."""
    zoneinfo: Annotated[str, example("Europe/Berlin")] | None = None
    """The time zone."""
    locale: Annotated[str, example("de")] | None = None
    """The language that the person selected."""
    updated_at: Annotated[int, example(1_780_000_000)] | None = None
    """When the profile was last changed, in seconds since 1970."""
    email: Annotated[str, example("ada@example.org")] | None = None
    """The person's email address. With the scope `email`."""
    email_verified: Annotated[bool, example(True)] | None = None
    """Whether the email address is verified. With the scope `email`."""
    organization: OrganizationClaims | None = None
    """The organization of the service. With the scope `organization`."""
    roles: Annotated[Sequence[str], example(["editor"])] | None = None
    """The person's roles in the service. With the scope `roles`."""
    permissions: Annotated[Sequence[str], example(["invoices.read"])] | None = None
    """The permissions of these roles. With the scope `roles`."""
    groups: Annotated[Sequence[str], example(["acme/member", "support"])] | None = None
    """The person's role in the organization, as `organization/role`, and then the person's teams in it. With the scope `groups`."""


class UserinfoRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The access token, if it is not in the `Authorization` header (RFC 6750 section 2.2)."""

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
    USERINFO_ENDPOINT,
    caller=OPENID_SESSION,
    limit=UNLIMITED,
    refuses=(InsufficientScope,),
    tags=("oauth",),
    origins=Origins.CLIENTS_WITH_CREDENTIALS,
)
async def get_userinfo(call: Call, postern: Postern) -> PersonClaims:
    """Get user info

    Returns the claims of the granted scopes. The access token needs the scope `openid`.
    """
    return await _claims(call.caller, postern)


@endpoint.post(
    USERINFO_ENDPOINT,
    caller=OPENID_SESSION,
    limit=UNLIMITED,
    refuses=(InsufficientScope,),
    accepts=Form(),
    tags=("oauth",),
    origins=Origins.CLIENTS_WITH_CREDENTIALS,
)
async def get_userinfo_by_post(call: Call[UserinfoRequest], postern: Postern) -> PersonClaims:
    """Get user info by POST

    Returns the claims of the granted scopes. Send the token in the header or in the form (OpenID Connect Core section 5.3.1).
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
    return await _claims(caller, postern)


@endpoint.get("/.well-known/openid-configuration", **_PUBLIC)
def get_openid_configuration(_call: Call, postern: Postern) -> bytes:
    """Get the OpenID Connect discovery document

    Returns the URLs of all endpoints and the supported features (OpenID Connect Discovery). OpenID Connect libraries configure themselves
    with this document. They need only the issuer URL, which is the base URL of this installation.
    """
    return _published(postern)


@endpoint.get("/.well-known/oauth-authorization-server", **_PUBLIC)
def get_authorization_server_metadata(_call: Call, postern: Postern) -> bytes:
    """Get the OAuth authorization server metadata (RFC 8414)

    Returns the same document as `/.well-known/openid-configuration`. For OAuth libraries and clients of the Model Context Protocol.
    """
    return _published(postern)


def _published(postern: Postern) -> bytes:
    federation = postern.federation
    return _discovery(postern.foundation.public_url, federation.grants.types, registers=federation.open_registrations.is_open)


@lru_cache(maxsize=4)
def _discovery(issuer: str, grants: tuple[str, ...], *, registers: bool) -> bytes:
    return msgspec.json.encode(metadata(issuer, grants, [language.tag for language in Language], registers=registers))


async def _claims(caller: Caller, postern: Postern) -> PersonClaims:
    """A service's own claims have names that no declaration knows, so the answer is the claims themselves."""
    return cast("PersonClaims", await postern.federation.userinfo.claims(caller))
