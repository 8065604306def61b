"""The permissions and the roles of a service, and to whom the roles are assigned."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import AssignmentId, UserId
from core.domain.identity.proofs import StepUp
from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT
from core.domain.services import service_roles
from core.domain.services.service_roles import Assignment, ServicePermission, ServiceRole, ToPerson, ToRole, ToTeam, WantedAssignee
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
    Line,
    Name,
    PermissionKey,
    RoleDescription,
    RoleSlug,
    ServicePath,
    Slug,
    UpdatedAt,
    UserUuid,
    Word,
    example,
)
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.machinery.step_up import require_fresh_proof

_TAGS = ("rights",)
_PERMISSIONS = "/api/organizations/{org_slug}/services/{service_slug}/permissions"
_PERMISSION = "/api/organizations/{org_slug}/services/{service_slug}/permissions/{permission_key}"


class ServicePermissionPath(ServicePath, frozen=True):
    permission_key: Annotated[Line, example("invoices:write")]
    """The permission's key."""


class NewServicePermission(msgspec.Struct, frozen=True):
    """A permission of the service."""

    key: Annotated[PermissionKey, example("invoices:write")]
    """1 to 80 of a-z, 0-9, _, ., : and -. The key never changes, and no other permission of the service ever gets it."""
    description: Annotated[RoleDescription, example("Write and send invoices")] = ""
    """Up to 500 characters."""


class ServicePermissionPatch(msgspec.Struct, frozen=True):
    """A change of a permission."""

    description: Annotated[RoleDescription, example("Write and send invoices")]
    """Up to 500 characters."""


class ServicePermissionRecord(msgspec.Struct, frozen=True):
    """A permission of the service."""

    id: Id
    key: Annotated[str, example("invoices:write")]
    """The permission's name in tokens. It never changes."""
    description: Annotated[str, example("Write and send invoices")]
    """A description of the permission."""
    created_at: CreatedAt


@endpoint.get(_PERMISSIONS, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_service_permissions(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[ServicePermissionRecord]:
    """List the permissions of a service, by key

    You get all of them; a service has at most 1000.
    """
    return [_record(one) for one in await postern.services.permissions.list(call.caller, call.path.service_slug)]


@endpoint.post(
    _PERMISSIONS,
    caller=able(Capability.SERVICES_MANAGE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    status=201,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def create_service_permission(
    call: Call[NewServicePermission, None, ServicePath, Member], postern: Postern
) -> ServicePermissionRecord:
    """Add a permission to a service

    No one has the permission yet: give it to a role of the service. Postern does nothing with a permission but tell it to the application.
    """
    body = call.body
    return _record(await postern.services.permissions.create(call.caller, call.path.service_slug, body.key, body.description, call.actor))


@endpoint.patch(
    _PERMISSION, caller=able(Capability.SERVICES_MANAGE, impersonated=False), keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS
)
async def change_service_permission(
    call: Call[ServicePermissionPatch, None, ServicePermissionPath, Member], postern: Postern
) -> ServicePermissionRecord:
    """Describe a permission again

    The key of a permission never changes, so applications continue to know it.
    """
    path = call.path
    return _record(
        await postern.services.permissions.describe(call.caller, path.service_slug, path.permission_key, call.body.description, call.actor)
    )


@endpoint.delete(
    _PERMISSION, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, limit=UNLIMITED, status=204, tags=_TAGS
)
async def delete_service_permission(call: Call[None, None, ServicePermissionPath, Member], postern: Postern) -> NoBody:
    """Delete a permission

    The service's roles lose it, and an application that asks is told so with the next request. Its key is not used again.
    """
    path = call.path
    await postern.services.permissions.delete(call.caller, path.service_slug, path.permission_key, call.actor)
    return NO_BODY


def _record(permission: ServicePermission) -> ServicePermissionRecord:
    return ServicePermissionRecord(permission.id, permission.key, permission.description, permission.created_at)


_ROLES = "/api/organizations/{org_slug}/services/{service_slug}/roles"
_ROLE = "/api/organizations/{org_slug}/services/{service_slug}/roles/{role_slug}"


class ServiceRolePath(ServicePath, frozen=True):
    role_slug: Annotated[Line, example("editor")]
    """The slug of a role of the service."""


class NewServiceRole(msgspec.Struct, frozen=True):
    """A role of the service."""

    slug: Annotated[RoleSlug, example("editor")]
    """1 to 50 of a-z, 0-9, - and _. The slug never changes, and no other role of the service ever gets it."""
    name: Annotated[Name, example("Editor")]
    """1 to 100 characters."""
    permissions: Annotated[Sequence[Word], example(["invoices:write"])] = ()
    """The keys of the role's permissions. The service must have them."""
    description: Annotated[RoleDescription, example("Writes invoices")] = ""
    """Up to 500 characters."""
    given_to_everybody: bool = False
    """Whether everyone who signs in to the service holds the role. Such a role lets no one in."""


class ServiceRolePatch(msgspec.Struct, frozen=True):
    """A change of a role. Omitted fields keep their values."""

    name: Annotated[Name, example("Editor")] | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    permissions: Annotated[Sequence[Word], example(["invoices:write"])] | msgspec.UnsetType = msgspec.UNSET
    """The keys of the role's permissions. The list replaces the old one."""
    description: Annotated[RoleDescription, example("Writes invoices")] | msgspec.UnsetType = msgspec.UNSET
    """Up to 500 characters."""
    given_to_everybody: Annotated[bool, example(False)] | msgspec.UnsetType = msgspec.UNSET
    """Whether everyone who signs in to the service holds the role."""


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
    """Whether everyone who signs in to the service holds the role."""
    created_at: CreatedAt
    updated_at: UpdatedAt


@endpoint.get(_ROLES, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_service_roles(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[ServiceRoleRecord]:
    """List the roles of a service, by slug

    You get all of them; a service has at most 200.
    """
    return [_record_service_role(role) for role in await postern.services.service_roles.list(call.caller, call.path.service_slug)]


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
    return _record_service_role(
        await postern.services.service_roles.create(call.caller, call.path.service_slug, _wanted(call.body), call.actor)
    )


@endpoint.get(_ROLE, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def get_service_role(call: Call[None, None, ServiceRolePath, Member], postern: Postern) -> ServiceRoleRecord:
    """Get one of a service's roles

    The response has the permissions that the role gives.
    """
    return _record_service_role(await postern.services.service_roles.get(call.caller, call.path.service_slug, call.path.role_slug))


@endpoint.patch(
    _ROLE, caller=able(Capability.SERVICES_MANAGE, impersonated=False), keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS
)
async def change_service_role(call: Call[ServiceRolePatch, None, ServiceRolePath, Member], postern: Postern) -> ServiceRoleRecord:
    """Change a role of a service

    An application that asks is told the change with the next request; tokens have it when they are made again.
    """
    path, change = call.path, _change(call.body)
    return _record_service_role(
        await postern.services.service_roles.change(call.caller, path.service_slug, path.role_slug, change, call.actor)
    )


@endpoint.delete(_ROLE, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, limit=UNLIMITED, status=204, tags=_TAGS)
async def delete_service_role(call: Call[None, None, ServiceRolePath, Member], postern: Postern) -> NoBody:
    """Delete a role of a service

    Its assignments end with it. A service with the policy `assigned` refuses the people who hold none of its roles any more, with the next
    request. The slug is not used again.
    """
    await postern.services.service_roles.delete(call.caller, call.path.service_slug, call.path.role_slug, call.actor)
    return NO_BODY


_wanted = taken(NewServiceRole, service_roles.WantedServiceRole)
_change = taken(ServiceRolePatch, service_roles.ServiceRoleChange)
_record_service_role = shown(ServiceRole, ServiceRoleRecord)


_ASSIGNMENTS = "/api/organizations/{org_slug}/services/{service_slug}/assignments"


class AssignmentPath(ServicePath, frozen=True):
    assignment_id: UUID
    """The assignment's ID."""


class AssignmentsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of the list."""

    role: Annotated[Slug, example("editor")] | None = None
    """Only assignments of this role of the service."""
    user_id: UserUuid | None = None
    """Only assignments to this person, not to the person's teams and roles."""
    after: UUID | None = None
    """The `next` of the page before."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The maximum number of entries to return. Values above the maximum are rejected."""


class NewAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """A role of the service, and exactly one of a person, a role of the organization and a team."""

    role: Annotated[Slug, example("editor")]
    """The slug of the service's role."""
    user_id: UserUuid | None = None
    """A member of the organization, or a user of the service."""
    organization_role: Annotated[Slug, example("admin")] | None = None
    """The slug of a role of the organization: everyone who has exactly this role, as a member or by a team, holds the service's role."""
    team: Annotated[Slug, example("support")] | None = None
    """The slug of a team: everyone in it holds the service's role."""


class AssignmentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An assignment of a role of the service. One of `user_id`, `organization_role` and `team` is set, and the others are null."""

    id: Id
    role: Annotated[str, example("editor")]
    """The slug of the service's role."""
    user_id: UUID | None = None
    """The person who holds the role."""
    email: Annotated[str | None, example("ada@example.org")] = None
    """The person's email address, in lists, if you may see end users."""
    organization_role: Annotated[str | None, example("admin")] = None
    """The slug of the organization's role whose people hold the role."""
    team: Annotated[str | None, example("support")] = None
    """The slug of the team whose members hold the role."""
    created_at: CreatedAt


class AssignmentList(msgspec.Struct, frozen=True):
    """One page of assignments."""

    assignments: Sequence[AssignmentRecord]
    """The assignments on this page, the oldest first."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


@endpoint.get(_ASSIGNMENTS, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, tags=_TAGS)
async def list_assignments(call: Call[None, AssignmentsQuery, ServicePath, Member], postern: Postern) -> AssignmentList:
    """List the assignments of a service's roles, the oldest first

    Each gives the role to a person, to a role of the organization, or to a team. Filter by `role` or `user_id`.
    """
    query = call.query
    page = await postern.services.assignments.list(
        call.caller,
        call.path.service_slug,
        role_slug=query.role,
        user=None if query.user_id is None else UserId(query.user_id),
        after=None if query.after is None else AssignmentId(query.after),
        limit=query.limit,
    )
    return AssignmentList(
        [_record_assignment(one, named=call.caller.may(Capability.END_USERS_VIEW)) for one in page.assignments], page.next
    )


@endpoint.post(
    _ASSIGNMENTS,
    caller=able(Capability.SERVICES_MANAGE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    status=201,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def create_assignment(call: Call[NewAssignment, None, ServicePath, Member], postern: Postern) -> AssignmentRecord:
    """Assign a role of a service

    To a person, to everyone with a role of the organization, or to a team. What was assigned to a person ends with the membership or with
    the use of the service. Only the owner of the organization may assign a role to a team that a directory fills, or to a role that such a
    team has, and must have reauthenticated recently.
    """
    body = call.body
    wanted = WantedAssignee(None if body.user_id is None else UserId(body.user_id), body.organization_role, body.team)
    is_proved = await postern.services.assignments.needs_proof(call.caller, wanted)
    if is_proved:
        await require_fresh_proof(call.request, postern, StepUp.ACCOUNT)
    return _record_assignment(
        await postern.services.assignments.add(call.caller, call.path.service_slug, body.role, wanted, call.actor, is_proved=is_proved)
    )


@endpoint.delete(
    f"{_ASSIGNMENTS}/{{assignment_id}}",
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    limit=UNLIMITED,
    status=204,
    tags=_TAGS,
)
async def delete_assignment(call: Call[None, None, AssignmentPath, Member], postern: Postern) -> NoBody:
    """Delete an assignment

    It counts with the next request. Of a person to whom no role of the service is assigned any more, a service with the policy `assigned`
    refuses every request; if the assignment was the person's own, their sessions in the service end.
    """
    path = call.path
    await postern.services.assignments.remove(call.caller, path.service_slug, AssignmentId(path.assignment_id), call.actor)
    return NO_BODY


def _record_assignment(assignment: Assignment, *, named: bool = False) -> AssignmentRecord:
    to = assignment.to
    return AssignmentRecord(
        id=assignment.id,
        role=assignment.role_slug,
        user_id=to.user if isinstance(to, ToPerson) else None,
        email=(to.email or None) if named and isinstance(to, ToPerson) else None,
        organization_role=to.slug if isinstance(to, ToRole) else None,
        team=to.slug if isinstance(to, ToTeam) else None,
        created_at=assignment.created_at,
    )
