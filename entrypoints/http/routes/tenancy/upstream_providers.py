"""Upstream providers of an organization's own."""

from collections.abc import Mapping, Sequence
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
# An upstream provider lets people in, and outlasts an impersonation.
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


_Mapped = Annotated[Mapping[str, str], example({"https://idp.example.org/department": "department"})]


class NewUpstreamProvider(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenID Connect provider of yours."""

    name: _ProviderName
    """1 to 100 characters, for the button on the sign-in page. Each provider of an organization needs a name of its own."""
    issuer: _Issuer
    """The provider's issuer, exactly as in its ID tokens. We read its metadata from there."""
    client_id: _ClientId
    """The id of your client at the provider."""
    client_secret: _ClientSecret
    """The secret of that client. We store the secret encrypted, and no answer shows it."""
    scopes: _Scopes = ()
    """Further scopes to ask for, beside `openid email profile`."""
    enabled: _Enabled = True
    """Whether people can sign in through the provider."""
    profile_mapping: _Mapped = msgspec.field(default_factory=dict)
    """The keys of fields of your organization, by the claims of the provider that go into them at each sign-in: at most 50. The fields need
    `provider` in `written_by`. Wrong values are ignored.
    """


class UpstreamProviderPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a provider. Fields that you leave out stay as they are. The issuer cannot change, since it identifies people: for another
    issuer, create another provider.
    """

    name: _ProviderName | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    issuer: _Issuer | msgspec.UnsetType = msgspec.UNSET
    """The present issuer. Any other issuer is refused."""
    client_id: _ClientId | msgspec.UnsetType = msgspec.UNSET
    """The id of your client at the provider."""
    client_secret: _ClientSecret | msgspec.UnsetType = msgspec.UNSET
    """The secret of that client."""
    scopes: _Scopes | msgspec.UnsetType = msgspec.UNSET
    """Further scopes to ask for, beside `openid email profile`. The list replaces the old one."""
    enabled: _Enabled | msgspec.UnsetType = msgspec.UNSET
    """Whether people can sign in through the provider."""
    profile_mapping: _Mapped | msgspec.UnsetType = msgspec.UNSET
    """The keys of fields of your organization, by the claims that go into them. The mapping replaces the old one."""


class UpstreamProviderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenID Connect provider of yours, without the secret of your client at the provider."""

    id: Id
    name: _ProviderName
    """The name on the button."""
    issuer: _Issuer
    """The provider's issuer."""
    client_id: _ClientId
    """The id of your client at the provider."""
    has_secret: Annotated[bool, example(True)]
    """Always true: every client has a secret."""
    scopes: _Scopes
    """The further scopes, beside `openid email profile`."""
    enabled: _Enabled
    """Whether people can sign in through the provider."""
    profile_mapping: _Mapped
    """The keys of fields of your organization, by the claims that go into them at each sign-in."""
    callback_url: Annotated[str, example("https://id.example.org/auth/0199d3a0-0000-7000-8000-000000000009/callback")]
    """The redirect URI that you must allow for your client at the provider."""
    created_at: CreatedAt
    updated_at: UpdatedAt


@endpoint.get(_PROVIDERS, caller=_MANAGE, keys=True, tags=_TAGS)
async def list_upstream_providers(
    call: Call[None, None, UpstreamProvidersPath, Member], postern: Postern
) -> Sequence[UpstreamProviderRecord]:
    """List the organization's own upstream providers, the oldest first"""
    return [_record(postern, one) for one in await postern.tenancy.upstream_providers.list(call.caller)]


@endpoint.post(
    _PROVIDERS,
    caller=_IN_PERSON,
    keys=Capability.CONNECTIONS_MANAGE,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    status=201,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def create_upstream_provider(
    call: Call[NewUpstreamProvider, None, UpstreamProvidersPath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Let people sign in through a provider of your organization

    The provider can be any that supports OpenID Connect over https. Its statements about an address count only in a domain that your
    organization has proved, and never for platform owners. Allow `callback_url` for your client at the provider. An organization has at
    most 20 providers. You need a recent proof of who you are: of the second factor, if you have one.
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
        mapping=body.profile_mapping,
    )
    return _record(postern, created)


@endpoint.patch(
    _PROVIDER,
    caller=_IN_PERSON,
    keys=Capability.CONNECTIONS_MANAGE,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def change_upstream_provider(
    call: Call[UpstreamProviderPatch, None, UpstreamProviderPath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Change an upstream provider of your organization

    Once the provider is disabled, nobody can sign in through it, not even people who are at the provider at this moment. Sessions continue.
    You need a recent proof of who you are: of the second factor, if you have one.
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
        mapping=given(body.profile_mapping),
    )
    return _record(postern, changed)


@endpoint.delete(
    _PROVIDER, caller=_IN_PERSON, keys=Capability.CONNECTIONS_MANAGE, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, status=204, tags=_TAGS
)
async def delete_upstream_provider(call: Call[None, None, UpstreamProviderPath, Member], postern: Postern) -> NoBody:
    """Delete an upstream provider of your organization

    The identities that people have connected at this provider are deleted, too. You need a recent proof of who you are: of the second
    factor, if you have one.
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
        profile_mapping=dict(provider.profile_mapping),
        callback_url=postern.identity.journeys.callback(str(provider.id)),
        created_at=provider.created_at,
        updated_at=provider.updated_at,
    )
