"""The resource servers of an organization: its APIs that tokens are made for."""

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
    """A scope of the API: what a token lets its holder do there."""

    name: _ScopeName
    """1 to 100 visible ASCII characters other than " and \\. Scopes that mean the same for every API, such as `openid`, are refused."""
    description: _ScopeText
    """1 to 200 characters in plain words, without links and markup. People read it before they allow an application something."""
    permission: Annotated[PermissionKey, example("orders.read")] | None = None
    """A permission of the service that represents the API: a person must hold it, or the token does not have the scope."""
    acr_values: Annotated[Sequence[Word], example([TWO_FACTORS])] = ()
    """The sign-in must reach one of these (RFC 9470), or the token does not have the scope. The only value is
    `http://schemas.openid.net/pape/policies/2007/06/multi-factor`, which asks for MFA. Empty for any sign-in.
    """
    max_age: _MaxAge | None = None
    """How old the sign-in may be when an application asks for the scope, in seconds: 60 to 2592000. The API compares `auth_time` of the
    token afterwards, since a refresh is no new sign-in. Null for any age.
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
    """A new resource server."""

    identifier: _Identifier
    """The URL of the API, which clients send as `resource` and tokens have as `aud`. It is compared byte by byte, so write it as programs
    do: https, the host in small letters, no default port, no `.` and `..` in the path, no fragment, at most 500 characters. For
    development, `http` on `localhost`, `127.0.0.1` and `[::1]` works inside the organization. The identifier never changes.
    """
    name: _Name
    """1 to 100 characters. People read it before they allow an application something."""
    scopes: _Scopes = ()
    """At most 100. Each name may appear once."""
    token_lifetime: _Lifetime | None = None
    """How long tokens for the API live, in seconds: 60 to 86400. Null for as long as the installation's access tokens."""
    access_token_alg: TokenAlgorithm = TokenAlgorithm.ES256
    """The algorithm that signs tokens for the API. Choose RS256 if the API's library knows nothing else."""
    service_slug: _Service | None = None
    """The service that represents the API: its credentials introspect the API's tokens, and its permissions may guard scopes."""
    admits: Admits = Admits.NAMED
    """Who may ask for tokens: `all` services of the organization, or the `named` ones."""
    admitted_services: _Slugs = ()
    """The slugs of the named services. They count only if `admits` is `named`."""
    metadata_clients: MetadataClients = MetadataClients.OFF
    """Whether clients that describe themselves in a document may ask: `off` for no one's, `named` for those whose documents are at the
    hosts of `metadata_hosts`, `any` for everyone's. The organization and the API must both let a client in.
    """
    metadata_hosts: MetadataHosts = ()
    """The hosts of documents, such as `claude.ai`, each without the hosts below it. For documents they count only for `named`."""
    registered_clients: RegisteredClients = RegisteredClients.OFF
    """Whether dynamically registered clients on people's own devices may sign people in: `on` lets them in where the API, or the
    organization, says so as well and the operator has turned open registration on. They lead back to the device, or to `metadata_hosts`.
    """
    exchanges: _Slugs = ()
    """The slugs of services that may exchange the tokens of their own APIs for one for this API, and then call it in a person's name. The
    person is not asked: you answer for these services.
    """


class ResourceServerPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a resource server. Omitted fields keep their values; send at least one. A list replaces the old one."""

    name: _Name | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    scopes: _Scopes | msgspec.UnsetType = msgspec.UNSET
    """At most 100. What people have allowed of a scope that is gone is gone, too."""
    token_lifetime: _Lifetime | msgspec.UnsetType | None = msgspec.UNSET
    """How long tokens for the API live, in seconds. Null for as long as the installation's access tokens."""
    access_token_alg: TokenAlgorithm | msgspec.UnsetType = msgspec.UNSET
    """The algorithm that signs tokens for the API."""
    service_slug: _Service | msgspec.UnsetType | None = msgspec.UNSET
    """The service that represents the API; null for none."""
    admits: Admits | msgspec.UnsetType = msgspec.UNSET
    """Who may ask for tokens: `all` services of the organization, or the `named` ones."""
    admitted_services: _Slugs | msgspec.UnsetType = msgspec.UNSET
    """The slugs of the named services. They count only if `admits` is `named`."""
    metadata_clients: MetadataClients | msgspec.UnsetType = msgspec.UNSET
    """Whether clients that describe themselves in a document may ask: `off` for no one's, `named` for those whose documents are at the
    hosts of `metadata_hosts`, `any` for everyone's. The organization and the API must both let a client in.
    """
    metadata_hosts: MetadataHosts | msgspec.UnsetType = msgspec.UNSET
    """The hosts of documents, such as `claude.ai`, each without the hosts below it. For documents they count only for `named`."""
    registered_clients: RegisteredClients | msgspec.UnsetType = msgspec.UNSET
    """Whether dynamically registered clients on people's own devices may sign people in: `on` lets them in where the API, or the
    organization, says so as well and the operator has turned open registration on. They lead back to the device, or to `metadata_hosts`.
    """
    exchanges: _Slugs | msgspec.UnsetType = msgspec.UNSET
    """The slugs of services that may exchange tokens for one for this API. What a service has exchanged ends with its name here."""


class ResourceServerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A resource server, its state, and the proof to publish."""

    id: Id
    identifier: _Identifier
    """The URL of the API, which clients send as `resource` and tokens have as `aud`."""
    name: _Name
    """The name that people read before they allow an application something."""
    state: Annotated[ResourceState, example("waiting")]
    """`waiting`: no one has shown whose host it is, and no tokens are made. `settling`: the identifier was another organization's, and no
    tokens are made before `active_from`. `active`: tokens are made.
    """
    development: Annotated[bool, example(False)]
    """Whether the address is on the developer's own machine. Other organizations may have the same one, so tokens for it name yours."""
    scopes: _Scopes
    """The scopes that clients may ask for."""
    token_lifetime: _Lifetime | None
    """How long tokens for the API live, in seconds. Null for as long as the installation's access tokens."""
    access_token_alg: Annotated[TokenAlgorithm, example("ES256")]
    """The algorithm that signs tokens for the API."""
    service_slug: _Service | None
    """The service that represents the API; null for none."""
    admits: Admits
    """Who may ask for tokens: `all` services of the organization, or the `named` ones."""
    admitted_services: _Slugs
    """The slugs of the named services, sorted."""
    metadata_clients: MetadataClients
    """Whether clients that describe themselves in a document may ask. `all` of `admits` does not include them."""
    metadata_hosts: MetadataHosts
    """The hosts of these documents, sorted. Dynamically registered clients may lead there as well."""
    registered_clients: RegisteredClients
    """Whether dynamically registered clients may sign people in."""
    exchanges: _Slugs
    """The slugs of the services that may exchange tokens for one for this API, sorted."""
    verified_at: datetime | None
    """When the organization verified the host; null if it has not."""
    checked_at: datetime | None
    """When Postern last looked for the proof."""
    approval_asked_at: datetime | None
    """When the organization asked the owners of the platform for an approval; null if it does not wait for one."""
    approved_at: datetime | None
    """When an owner of the platform approved the host in place of a proof; null if no one did."""
    active_from: datetime | None
    """When the last token of the organization that had the identifier before is over; null if no other organization had it."""
    txt_name: Annotated[str, example("_postern-verification.api.acme.example")] | None
    """The name of the TXT record that proves the host; null for a host that has no name in DNS."""
    txt_value: VerificationToken | None
    """The value of the TXT record."""
    file_url: Annotated[str, example("https://api.acme.example/.well-known/postern-verification.txt")] | None
    """The URL of the file that proves the host as well. `http` works, too. Postern does not follow redirects."""
    file_content: VerificationToken | None
    """The content of the file."""
    created_at: CreatedAt
    updated_at: UpdatedAt


@endpoint.get(_SERVERS, caller=_VIEW, keys=True, tags=_TAGS)
async def list_resource_servers(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[ResourceServerRecord]:
    """List the resource servers of an organization, the oldest first

    You get all of them; an organization has at most 100.
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
    """Register an API as the audience of tokens

    One issuer serves all organizations, so no tokens are made before the organization has verified the host: publish the record or the file
    from the answer, then verify the host. If the organization has verified the same host for something else, tokens are made at once. For a
    host that has no name in DNS, ask the owners of the platform for an approval. A claim that waits keeps no other organization from the
    identifier. An identifier that tokens were made for is never given to another organization, except to one that proves the host when the
    earlier one had an approval alone.
    """
    body = call.body
    server = await postern.services.resource_servers.create(call.caller, body.identifier, _settings(body), call.actor)
    return resource_server_record(server, postern)


@endpoint.get(_SERVER, caller=_VIEW, keys=True, tags=_TAGS)
async def get_resource_server(call: Call[None, None, ResourceServerPath, Member], postern: Postern) -> ResourceServerRecord:
    """Get a resource server

    Its state says whether tokens are made for it.
    """
    return resource_server_record(await postern.services.resource_servers.get(call.caller, _id(call.path)), postern)


@endpoint.patch(_SERVER, caller=_MANAGE, keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def change_resource_server(
    call: Call[ResourceServerPatch, None, ResourceServerPath, Member], postern: Postern
) -> ResourceServerRecord:
    """Change a resource server

    The change counts for the next token; tokens that were made stay as they are until they expire. The identifier never changes.
    """
    changed = await postern.services.resource_servers.change(call.caller, _id(call.path), _change(call.body), call.actor)
    return resource_server_record(changed, postern)


@endpoint.post(f"{_SERVER}/verify", caller=_MANAGE, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def verify_resource_server(call: Call[None, None, ResourceServerPath, Member], postern: Postern) -> DomainVerification:
    """Verify the host of an API

    Once Postern finds the proof, tokens are made for the API, and approvals that other organizations have on the host end. Leave the proof
    published: Postern looks for it every week. When the proof is missing, the owners get an email; after two further days without the
    proof, no more tokens are made.
    """
    outcome = await postern.services.resource_servers.verify(call.caller, _id(call.path), call.actor)
    return DomainVerification(outcome.verified, outcome.message)


@endpoint.post(f"{_SERVER}/ask-approval", caller=_MANAGE, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def request_resource_approval(call: Call[None, None, ResourceServerPath, Member], postern: Postern) -> ResourceServerRecord:
    """Request approval of an API's host from platform owners

    For a host that you cannot prove. Until an owner of the platform approves it, no tokens are made. Asking again changes nothing.
    """
    return resource_server_record(await postern.services.resource_servers.ask_approval(call.caller, _id(call.path), call.actor), postern)


@endpoint.delete(_SERVER, caller=_MANAGE, keys=True, limit=UNLIMITED, status=204, tags=_TAGS)
async def delete_resource_server(call: Call[None, None, ResourceServerPath, Member], postern: Postern) -> NoBody:
    """Delete a resource server

    No more tokens are made for the API, and none is refreshed. No other organization ever gets the identifier; yours may register it
    again.
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
