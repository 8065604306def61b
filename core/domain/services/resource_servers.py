"""Resource servers: APIs of an organization for which tokens are issued."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import DomainId, OrganizationId, ResourceServerId, ServiceId
from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS
from core.domain.lines import has_markup, typed_line
from core.domain.outbound import MetadataClients, RegisteredClients, metadata_hosts
from core.domain.record.events import SYSTEM, Actor, Event, Target, differences
from core.domain.requests import UNCHANGED, RecordChange, Unchanged
from core.domain.services.resource_identifiers import ResourceIdentifier, resource_identifier
from core.domain.tenancy.domains import Domain
from core.domain.tokens import TokenAlgorithm
from core.frozen import Frozen, names_of, replace, values_of

MOST_RESOURCE_SERVERS: Final = 100
"""The limit for one organization. A list shows all of them at once."""
MOST_APPROVALS: Final = 200
"""Of those that ask for an approval or have one, platform owners see so many at once."""
MOST_SCOPES: Final = 100
LONGEST_NAME: Final = 100
LONGEST_SCOPE: Final = 100
LONGEST_DESCRIPTION: Final = 200
SHORTEST_LIFETIME: Final = 60
LONGEST_LIFETIME: Final = 86_400
SHORTEST_MAX_AGE: Final = 60
"""A person needs some time to allow an application something, and clocks differ."""
LONGEST_MAX_AGE: Final = 2_592_000
# After an identifier has changed hands, every token that was made for the organization before is over.
SETTLES_AFTER: Final = timedelta(seconds=LONGEST_LIFETIME)

MANAGE_SIGNALS: Final = "ssf.manage"
SIGNAL_SCOPES: Final = frozenset({MANAGE_SIGNALS, "ssf.read"})
"""Scopes of shared signals. An API that had one before keeps it, and its organization has no signals until the scope has another name."""

RESERVED_SCOPES: Final = frozenset(
    {
        *SIGNAL_SCOPES,
        *("openid", "profile", "email", "address", "phone", "offline_access"),
        *("organization", "roles", "groups", "provider_token"),
    }
)
"""Scopes that say something about the person or the session. They are the same for every API, so no API has them as its own."""

# RFC 6749 section 3.3.
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


class Admits(StrEnum):
    """The applications of the organization that can request tokens."""

    ALL = "all"
    NAMED = "named"


class ResourceState(StrEnum):
    """Whether tokens are issued for a resource server."""

    WAITING = "waiting"
    """Nobody has shown whose host it is. No tokens are made, and the claim keeps nobody else from anything."""
    SETTLING = "settling"
    """The identifier was another organization's. No tokens are made until the last token of that organization is over."""
    ACTIVE = "active"


class ResourceScope(Frozen):
    """`permission` is a permission of the service that stands for the API: a person must hold it, or the token does not get the scope.
    Nobody holds a permission that was deleted, or that belongs to a deleted service.
    """

    name: str
    description: str
    permission: str | None = None
    acr_values: tuple[str, ...] = ()
    """The context classes of which the sign-in must reach one (RFC 9470), or the token does not get the scope."""
    max_age: int | None = None
    """In seconds: the sign-in may be at most this old when an application asks for the scope. The API compares `auth_time` afterwards."""


class ResourceHost(Domain):
    """The proof of a resource server's host. `name` is the host, and the id is the resource server's."""

    identifier: str


class ResourceServerSettings(Frozen, kw_only=True):
    """What an organization sets. The identifier is set once, because tokens and programs have it."""

    name: str
    service_slug: str | None = None
    token_lifetime: int | None = None
    """In seconds. None for the installation's access token lifetime."""
    access_token_alg: TokenAlgorithm = TokenAlgorithm.ES256
    admits: Admits = Admits.NAMED
    admitted: Sequence[str] = ()
    """Slugs of the named services, sorted. They count only for `named`."""
    metadata_clients: MetadataClients = MetadataClients.OFF
    metadata_hosts: Sequence[str] = ()
    registered_clients: RegisteredClients = RegisteredClients.OFF
    exchanges: Sequence[str] = ()
    """Slugs of the services that may exchange tokens towards it, sorted. The organization answers for them: the person was not asked."""
    scopes: Sequence[ResourceScope] = ()


class ResourceServer(ResourceServerSettings, kw_only=True):
    """Applications name an API by its identifier (RFC 8707), and the API accepts the tokens that have this identifier as their audience.
    One issuer serves all organizations, so an API that trusts the issuer must be sure that only its own organization has tokens issued for
    it. That is why a host must be verified, or approved by a platform owner, before tokens are issued for it.

    `verified_at` and `approved_at` exclude each other: a proof takes the place of an approval.
    """

    id: ResourceServerId
    organization: OrganizationId
    identifier: str
    host: str
    service: ServiceId | None = None
    """The service that stands for the API: its credentials introspect and exchange the API's tokens."""
    token: str
    """The text that proves the host, once its owner has published it."""
    verified_at: datetime | None = None
    checked_at: datetime | None = None
    misses: int = 0
    approval_asked_at: datetime | None = None
    approved_at: datetime | None = None
    settles_at: datetime | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def is_local(self) -> bool:
        """For development. It is unique inside its organization alone, so tokens for it name the organization."""
        return self._address.is_local

    @property
    def can_be_proved(self) -> bool:
        return self._address.is_name

    @property
    def key(self) -> str:
        return self._address.key

    @property
    def _address(self) -> ResourceIdentifier:
        return ResourceIdentifier(self.identifier, self.host)

    def state(self, now: datetime) -> ResourceState:
        if self.is_local:
            return ResourceState.ACTIVE
        if self.verified_at is None and self.approved_at is None:
            return ResourceState.WAITING
        return ResourceState.ACTIVE if self.settles_at is None or self.settles_at <= now else ResourceState.SETTLING

    def is_active(self, now: datetime) -> bool:
        """Whether tokens are made for it."""
        return self.state(now) is ResourceState.ACTIVE

    @property
    def scope_names(self) -> tuple[str, ...]:
        return tuple(scope.name for scope in self.scopes)

    def scope(self, name: str) -> ResourceScope | None:
        return next((scope for scope in self.scopes if scope.name == name), None)

    @property
    def proof(self) -> ResourceHost:
        return ResourceHost(
            id=DomainId(self.id),
            organization=self.organization,
            name=self.host,
            token=self.token,
            verified_at=self.verified_at,
            checked_at=self.checked_at,
            misses=self.misses,
            created_at=self.created_at,
            identifier=self.identifier,
        )


class ResourceApproval(Frozen):
    """For the owners of the platform, who know the organization by its slug and name. `proved_elsewhere`: another organization has proved
    the host, so nobody can approve this.
    """

    server: ResourceServer
    organization_slug: str
    organization_name: str
    proved_elsewhere: bool


class ResourceServerChange(RecordChange, kw_only=True):
    name: str | Unchanged = UNCHANGED
    service_slug: str | Unchanged | None = UNCHANGED
    token_lifetime: int | Unchanged | None = UNCHANGED
    access_token_alg: TokenAlgorithm | Unchanged = UNCHANGED
    admits: Admits | Unchanged = UNCHANGED
    admitted: Sequence[str] | Unchanged = UNCHANGED
    metadata_clients: MetadataClients | Unchanged = UNCHANGED
    metadata_hosts: Sequence[str] | Unchanged = UNCHANGED
    registered_clients: RegisteredClients | Unchanged = UNCHANGED
    exchanges: Sequence[str] | Unchanged = UNCHANGED
    scopes: Sequence[ResourceScope] | Unchanged = UNCHANGED


class NamedServices(Frozen):
    """The services that a resource server names, as they are now. `permissions` are the keys of the service that stands for it."""

    ids: Mapping[str, ServiceId]
    permissions: Collection[str] = ()


def made(
    id_: UUID, organization: OrganizationId, identifier: str, settings: ResourceServerSettings, *, token: str, now: datetime
) -> ResourceServer:
    """Raises `BadRequest`."""
    address = resource_identifier(identifier)
    return checked(
        ResourceServer(
            id=ResourceServerId(id_),
            organization=organization,
            identifier=address.text,
            host=address.host,
            token=token,
            created_at=now,
            updated_at=now,
            **values_of(settings),
        )
    )


def changed(before: ResourceServer, change: ResourceServerChange, now: datetime) -> ResourceServer:
    """The resource server after the change; `before` itself when nothing differs. Raises `BadRequest`."""
    kept = frozenset(scope.name for scope in before.scopes if scope.name in SIGNAL_SCOPES)
    after = checked(replace(before, **change.said), kept)
    return before if after == before else replace(after, updated_at=now)


def with_services(server: ResourceServer, named: NamedServices) -> ResourceServer:
    """The resource server with the id of the service that stands for it. Raises `BadRequest` for services and permissions that do not
    exist.
    """
    for field, slugs in (("admitted_services", server.admitted), ("exchanges", server.exchanges)):
        for at, slug in enumerate(slugs):
            if slug not in named.ids:
                raise BadRequest(f"{field}[{at}]: the organization has no such service", words="no_such_service")
    if server.service_slug is None:
        return replace(server, service=None)
    if server.service_slug not in named.ids:
        raise BadRequest("service_slug: the organization has no such service", words="no_such_service")
    for at, scope in enumerate(server.scopes):
        if scope.permission is not None and scope.permission not in named.permissions:
            raise BadRequest(f"scopes[{at}].permission: the service has no such permission", words="no_such_permission")
    return replace(server, service=named.ids[server.service_slug])


def checked(server: ResourceServer, kept: Collection[str] = ()) -> ResourceServer:
    """`kept` are reserved names that the scopes had before they were reserved. Raises `BadRequest`."""
    name = typed_line("name", server.name)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters", words="field_length", values={"least": 1, "most": LONGEST_NAME})
    if server.token_lifetime is not None and not SHORTEST_LIFETIME <= server.token_lifetime <= LONGEST_LIFETIME:
        raise BadRequest(
            f"token_lifetime: {SHORTEST_LIFETIME} to {LONGEST_LIFETIME} seconds, or null for the installation's",
            words="token_lifetime",
            values={"least": SHORTEST_LIFETIME, "most": LONGEST_LIFETIME},
        )
    return replace(
        server,
        name=name,
        admitted=tuple(sorted(set(server.admitted))),
        metadata_hosts=metadata_hosts(server.metadata_hosts),
        exchanges=tuple(sorted(set(server.exchanges))),
        scopes=checked_scopes(server.scopes, kept, has_service=server.service_slug is not None),
    )


def checked_scopes(scopes: Sequence[ResourceScope], kept: Collection[str] = (), *, has_service: bool) -> tuple[ResourceScope, ...]:
    """Raises `BadRequest`."""
    if len(scopes) > MOST_SCOPES:
        raise BadRequest(f"scopes: at most {MOST_SCOPES}", words="field_list", values={"most": MOST_SCOPES})
    names = [scope.name for scope in scopes]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise BadRequest(f"scopes[{at}].name: each name can be used only once", words="field_once")
    return tuple(_scope(scope, f"scopes[{at}]", kept, has_service=has_service) for at, scope in enumerate(scopes))


def _scope(scope: ResourceScope, field: str, kept: Collection[str], *, has_service: bool) -> ResourceScope:
    if len(scope.name) > LONGEST_SCOPE or not _SCOPE.fullmatch(scope.name):
        raise BadRequest(
            f'{field}.name: 1 to {LONGEST_SCOPE} visible ASCII characters other than " and \\ (RFC 6749)',
            words="scope_malformed",
            values={"most": LONGEST_SCOPE},
        )
    if scope.name.lower() in RESERVED_SCOPES and scope.name not in kept:
        raise BadRequest(
            f"{field}.name: {scope.name} is a scope of Postern; begin the name with that of your API, as in orders:{scope.name}",
            words="scope_reserved",
            values={"name": scope.name},
        )
    description = typed_line(f"{field}.description", scope.description)
    if not 1 <= len(description) <= LONGEST_DESCRIPTION:
        raise BadRequest(
            f"{field}.description: 1 to {LONGEST_DESCRIPTION} characters: people read it before they give consent",
            words="field_length",
            values={"least": 1, "most": LONGEST_DESCRIPTION},
        )
    if has_markup(description):
        raise BadRequest(f"{field}.description: plain text, without links and markup", words="plain_words")
    if scope.permission is not None and not has_service:
        raise BadRequest(
            f"{field}.permission: must be a permission of the service that represents the API, so service_slug must be set to that service",
            words="permission_needs_service",
        )
    return replace(scope, description=description, acr_values=_acr_values(scope, field))


def _acr_values(scope: ResourceScope, field: str) -> tuple[str, ...]:
    """Also checks the age that the scope asks for. Raises `BadRequest`."""
    if not set(scope.acr_values) <= {TWO_FACTORS}:
        raise BadRequest(
            f"{field}.acr_values: {TWO_FACTORS} requires MFA, and no other value is supported: each sign-in reaches {ONE_FACTOR}",
            words="scope_acr",
        )
    if scope.max_age is not None and not SHORTEST_MAX_AGE <= scope.max_age <= LONGEST_MAX_AGE:
        raise BadRequest(
            f"{field}.max_age: {SHORTEST_MAX_AGE} to {LONGEST_MAX_AGE} seconds, or null for a sign-in of any age",
            words="scope_max_age",
            values={"least": SHORTEST_MAX_AGE, "most": LONGEST_MAX_AGE},
        )
    return tuple(dict.fromkeys(scope.acr_values))


def resource_server_created(server: ResourceServer, actor: Actor) -> Event:
    return _event("resource_server.created", server, actor, _facts(server))


def resource_server_updated(before: ResourceServer, after: ResourceServer, actor: Actor) -> Event:
    """The event says what changed, with the earlier values."""
    details = differences(_facts(before), _facts(after))
    if before.scopes != after.scopes and before.scope_names == after.scope_names:
        details["changed_scopes"] = [one.name for one, other in zip(after.scopes, before.scopes, strict=True) if one != other]
    return _event("resource_server.updated", after, actor, details)


def resource_server_deleted(server: ResourceServer, actor: Actor) -> Event:
    return _event("resource_server.deleted", server, actor, {})


def resource_server_asked(server: ResourceServer, actor: Actor) -> Event:
    return _event("resource_server.approval_asked", server, actor, {"host": server.host})


def resource_server_approved(server: ResourceServer, actor: Actor) -> Event:
    return _event("resource_server.approved", server, actor, {"host": server.host})


def resource_server_approval_withdrawn(server: ResourceServer, actor: Actor) -> Event:
    return _event("resource_server.approval_withdrawn", server, actor, {"host": server.host})


def resource_server_superseded(server: ResourceServer) -> Event:
    """Another organization has proved the host, so the approval ended."""
    return _event("resource_server.superseded", server, SYSTEM, {"host": server.host})


def resource_host_verified(host: ResourceHost, actor: Actor) -> Event:
    return _of_host("resource_server.verified", host, actor)


def resource_host_lost(host: ResourceHost) -> Event:
    return _of_host("resource_server.lost", host, SYSTEM)


def _of_host(name: str, host: ResourceHost, actor: Actor) -> Event:
    details: Mapping[str, Json] = {"identifier": host.identifier, "host": host.name}
    return Event(name, actor, Target("resource_server", str(host.id)), host.organization, details)


def _facts(server: ResourceServer) -> dict[str, Any]:
    facts = {name: getattr(server, name) for name in names_of(ResourceServerSettings) if name not in {"admitted", "scopes"}}
    return {**facts, "admitted_services": server.admitted, "scopes": server.scope_names}


def _event(name: str, server: ResourceServer, actor: Actor, details: Mapping[str, Json]) -> Event:
    facts: dict[str, Json] = {"identifier": server.identifier, **details}
    return Event(name, actor, Target("resource_server", str(server.id)), server.organization, facts)
