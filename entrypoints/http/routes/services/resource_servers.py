"""The resource servers of an organization: the APIs for which tokens are issued."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import ResourceServerId
from core.domain.identity.sessions import TWO_FACTORS
from core.domain.outbound import MetadataClients, RegisteredClients
from core.domain.services.resource_identifiers import LONGEST_IDENTIFIER
from core.domain.services.resource_servers import (
    LONGEST_DESCRIPTION,
    LONGEST_LIFETIME,
    LONGEST_MAX_AGE,
    LONGEST_NAME,
    LONGEST_SCOPE,
    SHORTEST_LIFETIME,
    SHORTEST_MAX_AGE,
    Admits,
    ResourceScope,
    ResourceServer,
    ResourceServerChange,
    ResourceServerSettings,
    ResourceState,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tokens import TokenAlgorithm
from core.frozen import values_of
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken, turned
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    Id,
    MetadataHosts,
    OrganizationPath,
    PermissionKey,
    ServiceSlug,
    UpdatedAt,
    Word,
    bounded,
    example,
)
from entrypoints.http.machinery.limits import CREDENTIALS, UNLIMITED
from entrypoints.http.routes.tenancy.domains import DomainVerification, VerificationToken

_TAGS = ("resource-servers",)
_SERVERS = "/api/organizations/{org_slug}/resource-servers"
_SERVER = f"{_SERVERS}/{{resource_id}}"
_VIEW = able(Capability.SERVICES_VIEW, impersonated=True)
# What tokens are made for outlasts an impersonation.
_MANAGE = able(Capability.SERVICES_MANAGE, impersonated=False)

_Identifier = Annotated[str, bounded({"maxLength": LONGEST_IDENTIFIER}, examples=["https://api.acme.example/orders"])]
_Name = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_NAME}, examples=["Orders"])]
_Lifetime = Annotated[
    int, msgspec.Meta(extra_json_schema={"minimum": SHORTEST_LIFETIME, "maximum": LONGEST_LIFETIME}, examples=[SHORTEST_LIFETIME * 5])
]
_MaxAge = Annotated[
    int, msgspec.Meta(extra_json_schema={"minimum": SHORTEST_MAX_AGE, "maximum": LONGEST_MAX_AGE}, examples=[SHORTEST_MAX_AGE * 5])
]
_ScopeName = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_SCOPE}, examples=["orders:read"])]
_ScopeText = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_DESCRIPTION}, examples=["See your orders"])]
_Slugs = Annotated[Sequence[ServiceSlug], example(["till"])]
_Service = Annotated[ServiceSlug, example("shop")]


class ResourceServerPath(OrganizationPath, frozen=True):
    resource_id: UUID
    """The resource server's ID."""


class ResourceScopeBody(msgspec.Struct, frozen=True):
    """A scope of the API."""

    name: _ScopeName
    r"""The name: 1 to 100 visible ASCII characters other than " and \. Scopes with a fixed meaning for all APIs, such as `openid`, are
    rejected.
    """
    description: _ScopeText
    """A description, 1 to 200 characters, without links and markup. People read it on the consent page."""
    permission: Annotated[PermissionKey, example("orders.read")] | None = None
    """The key of a permission of the service that represents the API. If a person does not have this permission, the token does not have
    the scope.
    """
    acr_values: Annotated[Sequence[Word], example([TWO_FACTORS])] = ()
    """The required authentication levels (RFC 9470). If the sign-in reaches none of them, the token does not have the scope. The only value
    is `http://schemas.openid.net/pape/policies/2007/06/multi-factor`, which requires MFA. Empty: any sign-in.
    """
    max_age: _MaxAge | None = None
    """The maximum age of the sign-in in seconds, 60 to 2592000, when an application requests the scope. Null: any age. The API must check
    `auth_time` of later tokens itself, since a refresh is not a new sign-in.
    """


_EXAMPLE: Final[dict[str, object]] = {
    "name": "orders:read",
    "description": "See your orders",
    "permission": None,
    "acr_values": [],
    "max_age": None,
}
_Scopes = Annotated[Sequence[ResourceScopeBody], example([_EXAMPLE])]


class NewResourceServer(msgspec.Struct, frozen=True, kw_only=True):
    """The resource server to create."""

    identifier: _Identifier
    """The URL of the API. Clients send it as `resource`, and tokens contain it as `aud`. Values are compared byte by byte, so use the
    normalized form: https, the host in lower case, no default port, no `.` and `..` in the path, and no fragment. At most 500 characters.
    For development, `http` on `localhost`, `127.0.0.1` and `[::1]` works inside the organization. The identifier never changes.
    """
    name: _Name
    """The name, 1 to 100 characters. People read it on the consent page."""
    scopes: _Scopes = ()
    """The scopes, at most 100. Names must be unique."""
    token_lifetime: _Lifetime | None = None
    """The lifetime of tokens for the API in seconds, 60 to 86400. Null: the lifetime of the installation's access tokens."""
    access_token_alg: TokenAlgorithm = TokenAlgorithm.ES256
    """The algorithm that signs tokens for the API. Use RS256 if the API's library supports no other."""
    service_slug: _Service | None = None
    """The slug of the service that represents the API. Its credentials introspect the API's tokens, and its permissions can guard scopes.
    """
    admits: Admits = Admits.NAMED
    """The services that can request tokens: `all` services of the organization, or only the `named` ones."""
    admitted_services: _Slugs = ()
    """The slugs of the named services. Only used if `admits` is `named`."""
    metadata_clients: MetadataClients = MetadataClients.OFF
    """Which client ID metadata documents are allowed: `off` for none, `named` for those at the hosts in `metadata_hosts`, `any` for all.
    Both the organization and the API must allow a client.
    """
    metadata_hosts: MetadataHosts = ()
    """The hosts of client ID metadata documents, such as `claude.ai`, without their subdomains. For documents, only used if
    `metadata_clients` is `named`.
    """
    registered_clients: RegisteredClients = RegisteredClients.OFF
    """Whether dynamically registered clients are allowed (`on`). Both the organization and the API must allow them, and the operator must
    have turned on dynamic client registration. They redirect to the person's own device, or to `metadata_hosts`.
    """
    exchanges: _Slugs = ()
    """The slugs of services that can exchange tokens of their own APIs for tokens of this API. They can then call it for the person. The
    person is not asked for consent: you are responsible for these services.
    """


class ResourceServerPatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to a resource server. Omitted fields keep their values; send at least one. A list replaces the current one."""

    name: _Name | msgspec.UnsetType = msgspec.UNSET
    """The name, 1 to 100 characters."""
    scopes: _Scopes | msgspec.UnsetType = msgspec.UNSET
    """The scopes, at most 100. If a scope is removed, people's consents for it are deleted, too."""
    token_lifetime: _Lifetime | msgspec.UnsetType | None = msgspec.UNSET
    """The lifetime of tokens for the API in seconds. Null: the lifetime of the installation's access tokens."""
    access_token_alg: TokenAlgorithm | msgspec.UnsetType = msgspec.UNSET
    """The algorithm that signs tokens for the API."""
    service_slug: _Service | msgspec.UnsetType | None = msgspec.UNSET
    """The slug of the service that represents the API; null for none."""
    admits: Admits | msgspec.UnsetType = msgspec.UNSET
    """The services that can request tokens: `all` services of the organization, or only the `named` ones."""
    admitted_services: _Slugs | msgspec.UnsetType = msgspec.UNSET
    """The slugs of the named services. Only used if `admits` is `named`."""
    metadata_clients: MetadataClients | msgspec.UnsetType = msgspec.UNSET
    """Which client ID metadata documents are allowed: `off` for none, `named` for those at the hosts in `metadata_hosts`, `any` for all.
    Both the organization and the API must allow a client.
    """
    metadata_hosts: MetadataHosts | msgspec.UnsetType = msgspec.UNSET
    """The hosts of client ID metadata documents, such as `claude.ai`, without their subdomains. For documents, only used if
    `metadata_clients` is `named`.
    """
    registered_clients: RegisteredClients | msgspec.UnsetType = msgspec.UNSET
    """Whether dynamically registered clients are allowed (`on`). Both the organization and the API must allow them, and the operator must
    have turned on dynamic client registration. They redirect to the person's own device, or to `metadata_hosts`.
    """
    exchanges: _Slugs | msgspec.UnsetType = msgspec.UNSET
    """The slugs of services that can exchange tokens for tokens of this API. If you remove a service, the tokens that it exchanged are
    revoked.
    """


class ResourceServerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A resource server, its state, and the proof to publish for its host."""

    id: Id
    identifier: _Identifier
    """The URL of the API. Clients send it as `resource`, and tokens contain it as `aud`."""
    name: _Name
    """The name that people read on the consent page."""
    state: Annotated[ResourceState, example("waiting")]
    """`waiting`: the host is not verified, and no tokens are issued. `settling`: another organization had the identifier before, and no
    tokens are issued before `active_from`. `active`: tokens are issued.
    """
    development: Annotated[bool, example(False)]
    """Whether the URL is on a developer's own machine. Other organizations can have the same URL, so tokens for it name your organization.
    """
    scopes: _Scopes
    """The scopes that clients can request."""
    token_lifetime: _Lifetime | None
    """The lifetime of tokens for the API in seconds. Null: the lifetime of the installation's access tokens."""
    access_token_alg: Annotated[TokenAlgorithm, example("ES256")]
    """The algorithm that signs tokens for the API."""
    service_slug: _Service | None
    """The slug of the service that represents the API; null for none."""
    admits: Admits
    """The services that can request tokens: `all` services of the organization, or only the `named` ones."""
    admitted_services: _Slugs
    """The slugs of the named services, sorted."""
    metadata_clients: MetadataClients
    """Which client ID metadata documents are allowed. `all` in `admits` does not include these clients."""
    metadata_hosts: MetadataHosts
    """The hosts of client ID metadata documents, sorted. Dynamically registered clients can redirect to them, too."""
    registered_clients: RegisteredClients
    """Whether dynamically registered clients are allowed."""
    exchanges: _Slugs
    """The slugs of the services that can exchange tokens for tokens of this API, sorted."""
    verified_at: datetime | None
    """When the organization verified the host; null if it has not."""
    checked_at: datetime | None
    """When Postern last checked the proof."""
    approval_asked_at: datetime | None
    """When the organization requested approval from the platform owners; null if no request is pending."""
    approved_at: datetime | None
    """When a platform owner approved the host in place of a proof; null if never."""
    active_from: datetime | None
    """When the last token of the identifier's previous organization expires; null if no other organization had the identifier."""
    txt_name: Annotated[str, example("_postern-verification.api.acme.example")] | None
    """The name of the TXT record that verifies the host; null for a host without a DNS name."""
    txt_value: VerificationToken | None
    """The value of the TXT record."""
    file_url: Annotated[str, example("https://api.acme.example/.well-known/postern-verification.txt")] | None
    """The URL of the file that verifies the host, as an alternative. `http` is also accepted. Postern does not follow redirects."""
    file_content: VerificationToken | None
    """The content of the file."""
    created_at: CreatedAt
    updated_at: UpdatedAt


@endpoint.get(_SERVERS, caller=_VIEW, keys=True, tags=_TAGS)
async def list_resource_servers(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[ResourceServerRecord]:
    """List resource servers

    Returns all resource servers of an organization, oldest first. An organization has at most 100.
    """
    servers = await postern.services.resource_servers.list(call.caller)
    return [resource_server_record(server, postern) for server in servers]


@endpoint.post(
    _SERVERS,
    caller=able(Capability.SERVICES_CREATE, impersonated=False),
    keys=True,
    limit=CREDENTIALS,
    status=201,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def create_resource_server(call: Call[NewResourceServer, None, OrganizationPath, Member], postern: Postern) -> ResourceServerRecord:
    """Create a resource server

    Registers an API as the audience of tokens. One issuer serves all organizations, so no tokens are issued before the organization has
    verified the host. Publish the TXT record or the file from the response, then verify the host. If the organization has already verified
    the host for another object, tokens are issued immediately. For a host without a DNS name, request approval from the platform owners.

    A pending resource server does not block the identifier for other organizations. After tokens were issued for an identifier, no other
    organization can get it. The only exception: if your organization had only an approval, another organization can get it by verifying the
    host.
    """
    body = call.body
    server = await postern.services.resource_servers.create(call.caller, body.identifier, _settings(body), call.actor)
    return resource_server_record(server, postern)


@endpoint.get(_SERVER, caller=_VIEW, keys=True, tags=_TAGS)
async def get_resource_server(call: Call[None, None, ResourceServerPath, Member], postern: Postern) -> ResourceServerRecord:
    """Get a resource server

    `state` says whether tokens are issued for it.
    """
    return resource_server_record(await postern.services.resource_servers.get(call.caller, _id(call.path)), postern)


@endpoint.patch(_SERVER, caller=_MANAGE, keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def change_resource_server(
    call: Call[ResourceServerPatch, None, ResourceServerPath, Member], postern: Postern
) -> ResourceServerRecord:
    """Change a resource server

    Changes apply to the next token. Issued tokens do not change until they expire. The identifier never changes.
    """
    changed = await postern.services.resource_servers.change(call.caller, _id(call.path), _change(call.body), call.actor)
    return resource_server_record(changed, postern)


@endpoint.post(f"{_SERVER}/verify", caller=_MANAGE, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def verify_resource_server(call: Call[None, None, ResourceServerPath, Member], postern: Postern) -> DomainVerification:
    """Verify the host of a resource server

    If Postern finds the proof, tokens are issued for the API. Approvals that other organizations have for the host are revoked. Keep the
    proof published: Postern checks it every week. If the proof is missing, the owners get an email. After 2 more days without the proof, no
    more tokens are issued.
    """
    outcome = await postern.services.resource_servers.verify(call.caller, _id(call.path), call.actor)
    return DomainVerification(outcome.verified, outcome.message)


@endpoint.post(f"{_SERVER}/ask-approval", caller=_MANAGE, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def request_resource_approval(call: Call[None, None, ResourceServerPath, Member], postern: Postern) -> ResourceServerRecord:
    """Request approval of a resource server's host

    For a host that you cannot verify. No tokens are issued until a platform owner approves the host. A repeated request has no effect.
    """
    return resource_server_record(await postern.services.resource_servers.ask_approval(call.caller, _id(call.path), call.actor), postern)


@endpoint.delete(_SERVER, caller=_MANAGE, keys=True, limit=UNLIMITED, status=204, tags=_TAGS)
async def delete_resource_server(call: Call[None, None, ResourceServerPath, Member], postern: Postern) -> NoBody:
    """Delete a resource server

    No more tokens are issued or refreshed for the API. No other organization ever gets the identifier, but yours can register it again.
    """
    await postern.services.resource_servers.delete(call.caller, _id(call.path), call.actor)
    return NO_BODY


def _id(path: ResourceServerPath) -> ResourceServerId:
    return ResourceServerId(path.resource_id)


def _scopes(given: Sequence[ResourceScopeBody]) -> tuple[ResourceScope, ...]:
    return tuple(ResourceScope(one.name, one.description, one.permission, tuple(one.acr_values), one.max_age) for one in given)


_settings = taken(
    NewResourceServer,
    ResourceServerSettings,
    apart=("identifier", "scopes"),
    named={"admitted": "admitted_services"},
    scopes=lambda body: _scopes(body.scopes),
)
_change = taken(
    ResourceServerPatch,
    ResourceServerChange,
    apart=("scopes",),
    named={"admitted": "admitted_services"},
    scopes=lambda body: turned(body.scopes, _scopes),
)
_shown: Final = shown(
    ResourceServer,
    ResourceServerRecord,
    given=("state",),
    named={"development": "is_local", "admitted_services": "admitted", "active_from": "settles_at"},
    scopes=lambda server: [ResourceScopeBody(**values_of(one)) for one in server.scopes],
    txt_name=lambda server: server.proof.record if server.can_be_proved else None,
    txt_value=lambda server: server.token if server.can_be_proved else None,
    file_url=lambda server: server.proof.file_url if server.can_be_proved else None,
    file_content=lambda server: server.token if server.can_be_proved else None,
)


def resource_server_record(server: ResourceServer, postern: Postern) -> ResourceServerRecord:
    return _shown(server, state=server.state(postern.foundation.clock.now()))
