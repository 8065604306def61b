"""Upstream providers of an organization's own."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.proofs import StepUp
from core.domain.tenancy.members import Member
from core.domain.tenancy.oauth_credentials import LONGEST
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.upstream_providers import LONGEST_ISSUER, UpstreamProvider
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, Name, SlugOfOrganization, UpdatedAt, example, given
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("settings",)
_PROVIDERS = "/api/organizations/{org_slug}/upstream-providers"
_PROVIDER = f"{_PROVIDERS}/{{provider_id}}"
_MANAGE = able(Capability.SETTINGS_MANAGE, impersonated=True)
# Who is let in from here on outlasts an impersonation.
_IN_PERSON = able(Capability.SETTINGS_MANAGE, impersonated=False)

_Length = msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": LONGEST})
_Issuer = Annotated[
    str, msgspec.Meta(extra_json_schema={"maxLength": LONGEST_ISSUER, "format": "uri"}, examples=["https://login.acme.example"])
]
_ProviderName = Annotated[Name, example("Acme login")]
_ClientId = Annotated[str, _Length, example("postern")]
_ClientSecret = Annotated[str, _Length, example("3c6e0b8a9c15224a8228b9a98ca1531d")]
_Scopes = Annotated[Sequence[str], example(["groups"])]
_Enabled = Annotated[bool, example(True)]


class UpstreamProvidersPath(msgspec.Struct, frozen=True):
    org_slug: SlugOfOrganization


class UpstreamProviderPath(msgspec.Struct, frozen=True):
    org_slug: SlugOfOrganization
    provider_id: UUID
    """The provider's id."""


class NewUpstreamProvider(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenID Connect provider of yours."""

    name: _ProviderName
    """1 to 100 characters, for the button on the sign-in page. No two of an organization share one."""
    issuer: _Issuer
    """Its issuer, exactly as its ID tokens have it. Its metadata is read from there."""
    client_id: _ClientId
    """The id of your client there."""
    client_secret: _ClientSecret
    """The secret of that client. It is stored encrypted, and no answer shows it."""
    scopes: _Scopes = ()
    """Scopes to ask for beside `openid email profile`."""
    enabled: _Enabled = True
    """Whether people can sign in through it."""


class UpstreamProviderPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What you leave out stays as it is. The issuer cannot be changed, since people are known by it: for another one, make
    another provider.
    """

    name: _ProviderName | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    issuer: _Issuer | msgspec.UnsetType = msgspec.UNSET
    """As it is. Any other one is refused."""
    client_id: _ClientId | msgspec.UnsetType = msgspec.UNSET
    """The id of your client there."""
    client_secret: _ClientSecret | msgspec.UnsetType = msgspec.UNSET
    """The secret of that client."""
    scopes: _Scopes | msgspec.UnsetType = msgspec.UNSET
    """Scopes to ask for beside `openid email profile`. The list replaces the old one."""
    enabled: _Enabled | msgspec.UnsetType = msgspec.UNSET
    """Whether people can sign in through it."""


class UpstreamProviderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenID Connect provider of yours, without the secret of your client there."""

    id: Id
    name: _ProviderName
    """The name on the button."""
    issuer: _Issuer
    """Its issuer."""
    client_id: _ClientId
    """The id of your client there."""
    has_secret: Annotated[bool, example(True)]
    """Always true: there is none without a secret."""
    scopes: _Scopes
    """Scopes that are asked for beside `openid email profile`."""
    enabled: _Enabled
    """Whether people can sign in through it."""
    callback_url: Annotated[str, example("https://id.example.org/auth/0199d3a0-0000-7000-8000-000000000009/callback")]
    """The redirect URI that your client there has to allow."""
    created_at: CreatedAt
    updated_at: UpdatedAt


@endpoint.get(_PROVIDERS, caller=_MANAGE, tags=_TAGS)
async def list_upstream_providers(
    call: Call[None, None, UpstreamProvidersPath, Member], postern: Postern
) -> Sequence[UpstreamProviderRecord]:
    """List the organization's own upstream providers, the oldest first"""
    return [_record(postern, one) for one in await postern.tenancy.upstream_providers.list(call.caller)]


@endpoint.post(_PROVIDERS, caller=_IN_PERSON, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, status=201, refuses=(BadRequest,), tags=_TAGS)
async def create_upstream_provider(
    call: Call[NewUpstreamProvider, None, UpstreamProvidersPath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Let people sign in through a provider of your organization

    Any provider that speaks OpenID Connect, over https. What it says of an address counts only in a domain that your organization has
    proved, and never for platform owners. Allow `callback_url` there. An organization has at most 20. You need a recent proof of who you
    are: of the second factor, if you have one.
    """
    body = call.body
    created = await postern.tenancy.upstream_providers.create(
        call.caller,
        call.actor,
        name=body.name,
        issued_by=body.issuer,
        client=body.client_id,
        secret=body.client_secret,
        asked=body.scopes,
        enabled=body.enabled,
    )
    return _record(postern, created)


@endpoint.patch(_PROVIDER, caller=_IN_PERSON, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def change_upstream_provider(
    call: Call[UpstreamProviderPatch, None, UpstreamProviderPath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Change an upstream provider of your organization

    Once it is disabled, nobody comes in through it, not even those who are there at this moment. Sessions go on. You
    need a recent proof of who you are: of the second factor, if you have one.
    """
    body = call.body
    changed = await postern.tenancy.upstream_providers.change(
        call.caller,
        UpstreamProviderId(call.path.provider_id),
        call.actor,
        name=given(body.name),
        issued_by=given(body.issuer),
        client=given(body.client_id),
        secret=given(body.client_secret),
        asked=given(body.scopes),
        enabled=given(body.enabled),
    )
    return _record(postern, changed)


@endpoint.delete(_PROVIDER, caller=_IN_PERSON, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, status=204, tags=_TAGS)
async def delete_upstream_provider(call: Call[None, None, UpstreamProviderPath, Member], postern: Postern) -> NoBody:
    """Delete an upstream provider of your organization

    The connections that people have there go with it. You need a recent proof of who you are: of the second factor, if you have one.
    """
    await postern.tenancy.upstream_providers.delete(call.caller, UpstreamProviderId(call.path.provider_id), call.actor)
    return NO_BODY


def _record(postern: Postern, provider: UpstreamProvider) -> UpstreamProviderRecord:
    return UpstreamProviderRecord(
        id=provider.id,
        name=provider.name,
        issuer=provider.issuer,
        client_id=provider.client_id,
        has_secret=True,
        scopes=provider.scopes,
        enabled=provider.enabled,
        callback_url=postern.identity.journeys.callback(str(provider.id)),
        created_at=provider.created_at,
        updated_at=provider.updated_at,
    )
