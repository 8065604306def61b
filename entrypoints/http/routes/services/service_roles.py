"""The roles of a service: what people are in its application."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.services import service_roles
from core.domain.services.service_roles import ServiceRole
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    Id,
    Name,
    RoleDescription,
    RoleSlug,
    ServicePath,
    UpdatedAt,
    example,
)
from entrypoints.http.machinery.limits import UNLIMITED

_TAGS = ("rights",)
_ROLES = "/api/organizations/{org_slug}/services/{service_slug}/roles"
_ROLE = "/api/organizations/{org_slug}/services/{service_slug}/roles/{role_slug}"


class ServiceRolePath(ServicePath, frozen=True):
    role_slug: Annotated[str, example("editor")]
    """The slug of a role of the service."""


class NewServiceRole(msgspec.Struct, frozen=True):
    """A role of the service."""

    slug: Annotated[RoleSlug, example("editor")]
    """1 to 50 of a-z, 0-9, - and _. The slug never changes, and no other role of the service ever gets it."""
    name: Annotated[Name, example("Editor")]
    """1 to 100 characters."""
    permissions: Annotated[Sequence[str], example(["invoices:write"])] = ()
    """The keys of the role's permissions. The service must have them."""
    description: Annotated[RoleDescription, example("Writes invoices")] = ""
    """Up to 500 characters."""
    given_to_everybody: bool = False
    """Whether everybody who signs in to the service holds the role. Such a role lets nobody in."""


class ServiceRolePatch(msgspec.Struct, frozen=True):
    """A change of a role. Fields that you leave out stay as they are."""

    name: Annotated[Name, example("Editor")] | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    permissions: Annotated[Sequence[str], example(["invoices:write"])] | msgspec.UnsetType = msgspec.UNSET
    """The keys of the role's permissions. The list replaces the old one."""
    description: Annotated[RoleDescription, example("Writes invoices")] | msgspec.UnsetType = msgspec.UNSET
    """Up to 500 characters."""
    given_to_everybody: Annotated[bool, example(False)] | msgspec.UnsetType = msgspec.UNSET
    """Whether everybody who signs in to the service holds the role."""


class ServiceRoleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A role of the service."""

    id: Id
    slug: Annotated[str, example("editor")]
    """The role's name in tokens. It never changes."""
    name: Annotated[str, example("Editor")]
    """The role's name."""
    description: Annotated[str, example("Writes invoices")]
    """A description of the role."""
    permissions: Annotated[Sequence[str], example(["invoices:write"])]
    """The keys of the role's permissions, sorted."""
    given_to_everybody: Annotated[bool, example(False)]
    """Whether everybody who signs in to the service holds the role."""
    created_at: CreatedAt
    updated_at: UpdatedAt


@endpoint.get(_ROLES, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_service_roles(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[ServiceRoleRecord]:
    """List the roles of a service, by slug

    You get all of them; a service has at most 200.
    """
    return [_record(role) for role in await postern.services.service_roles.list(call.caller, call.path.service_slug)]


@endpoint.post(
    _ROLES,
    caller=able(Capability.SERVICES_MANAGE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    status=201,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def create_service_role(call: Call[NewServiceRole, None, ServicePath, Member], postern: Postern) -> ServiceRoleRecord:
    """Add a role to a service

    The role counts in the service's application alone. Assign it to people, to roles of the organization or to teams.
    """
    return _record(await postern.services.service_roles.create(call.caller, call.path.service_slug, _wanted(call.body), call.actor))


@endpoint.get(_ROLE, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def get_service_role(call: Call[None, None, ServiceRolePath, Member], postern: Postern) -> ServiceRoleRecord:
    """Get one of a service's roles

    The answer has the permissions that the role gives.
    """
    return _record(await postern.services.service_roles.get(call.caller, call.path.service_slug, call.path.role_slug))


@endpoint.patch(
    _ROLE, caller=able(Capability.SERVICES_MANAGE, impersonated=False), keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS
)
async def change_service_role(call: Call[ServiceRolePatch, None, ServiceRolePath, Member], postern: Postern) -> ServiceRoleRecord:
    """Change a role of a service

    An application that asks is told the change from the next request on; tokens have it when they are made anew.
    """
    path, change = call.path, _change(call.body)
    return _record(await postern.services.service_roles.change(call.caller, path.service_slug, path.role_slug, change, call.actor))


@endpoint.delete(_ROLE, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, limit=UNLIMITED, status=204, tags=_TAGS)
async def delete_service_role(call: Call[None, None, ServiceRolePath, Member], postern: Postern) -> NoBody:
    """Delete a role of a service

    Its assignments end with it. A service with the policy `assigned` refuses the people who hold none of its roles any more, from the next
    request on. The slug is not used again.
    """
    await postern.services.service_roles.delete(call.caller, call.path.service_slug, call.path.role_slug, call.actor)
    return NO_BODY


_wanted = taken(NewServiceRole, service_roles.WantedServiceRole)
_change = taken(ServiceRolePatch, service_roles.ServiceRoleChange)
_record = shown(ServiceRole, ServiceRoleRecord)
