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
    """The permission to create."""

    key: Annotated[PermissionKey, example("invoices:write")]
    """The key: 1 to 80 of a-z, 0-9, _, ., : and -. The key never changes, and is never reused in the service."""
    description: Annotated[RoleDescription, example("Write and send invoices")] = ""
    """A description, up to 500 characters."""


class ServicePermissionPatch(msgspec.Struct, frozen=True):
    """The changes to a permission."""

    description: Annotated[RoleDescription, example("Write and send invoices")]
    """A description, up to 500 characters."""


class ServicePermissionRecord(msgspec.Struct, frozen=True):
    """A permission of the service."""

    id: Id
    key: Annotated[str, example("invoices:write")]
    """The key of the permission in tokens. It never changes."""
    description: Annotated[str, example("Write and send invoices")]
    """A description of the permission."""
    created_at: CreatedAt


@endpoint.get(_PERMISSIONS, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_service_permissions(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[ServicePermissionRecord]:
    """List permissions of a service

    Returns all permissions, sorted by key. A service has at most 1000.
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
    """Create a permission

    Until a role contains the permission, no one has it. Postern only passes permissions to the application, which enforces them.
    """
    body = call.body
    return _record(await postern.services.permissions.create(call.caller, call.path.service_slug, body.key, body.description, call.actor))


@endpoint.patch(
    _PERMISSION, caller=able(Capability.SERVICES_MANAGE, impersonated=False), keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS
)
async def change_service_permission(
    call: Call[ServicePermissionPatch, None, ServicePermissionPath, Member], postern: Postern
) -> ServicePermissionRecord:
    """Change a permission

    Changes the description. The key never changes, so that applications can rely on it.
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

    The permission is removed from the service's roles, and no longer returned from the next request. Its key is never reused.
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
    """The role to create."""

    slug: Annotated[RoleSlug, example("editor")]
    """The slug: 1 to 50 of a-z, 0-9, - and _. The slug never changes, and is never reused in the service."""
    name: Annotated[Name, example("Editor")]
    """The name, 1 to 100 characters."""
    permissions: Annotated[Sequence[Word], example(["invoices:write"])] = ()
    """The keys of the role's permissions. The permissions must exist in the service."""
    description: Annotated[RoleDescription, example("Writes invoices")] = ""
    """A description, up to 500 characters."""
    given_to_everybody: bool = False
    """Whether everyone who signs in to the service has the role. Such a role does not allow anyone to sign in."""


class ServiceRolePatch(msgspec.Struct, frozen=True):
    """The changes to a role. Omitted fields keep their values."""

    name: Annotated[Name, example("Editor")] | msgspec.UnsetType = msgspec.UNSET
    """The name, 1 to 100 characters."""
    permissions: Annotated[Sequence[Word], example(["invoices:write"])] | msgspec.UnsetType = msgspec.UNSET
    """The keys of the role's permissions. The list replaces the current one."""
    description: Annotated[RoleDescription, example("Writes invoices")] | msgspec.UnsetType = msgspec.UNSET
    """A description, up to 500 characters."""
    given_to_everybody: Annotated[bool, example(False)] | msgspec.UnsetType = msgspec.UNSET
    """Whether everyone who signs in to the service has the role."""


class ServiceRoleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A role of the service."""

    id: Id
    slug: Annotated[str, example("editor")]
    """The slug of the role in tokens. It never changes."""
    name: Annotated[str, example("Editor")]
    """The role's name."""
    description: Annotated[str, example("Writes invoices")]
    """A description of the role."""
    permissions: Annotated[Sequence[str], example(["invoices:write"])]
    """The keys of the role's permissions, sorted."""
    given_to_everybody: Annotated[bool, example(False)]
    """Whether everyone who signs in to the service has the role."""
    created_at: CreatedAt
    updated_at: UpdatedAt


@endpoint.get(_ROLES, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_service_roles(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[ServiceRoleRecord]:
    """List roles of a service

    Returns all roles, sorted by slug. A service has at most 200.
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
    """Create a role

    The role applies only to this service. Assign it to people, to roles of the organization or to teams.
    """
    return _record_service_role(
        await postern.services.service_roles.create(call.caller, call.path.service_slug, _wanted(call.body), call.actor)
    )


@endpoint.get(_ROLE, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def get_service_role(call: Call[None, None, ServiceRolePath, Member], postern: Postern) -> ServiceRoleRecord:
    """Get a role of a service

    Returns the role and its permissions.
    """
    return _record_service_role(await postern.services.service_roles.get(call.caller, call.path.service_slug, call.path.role_slug))


@endpoint.patch(
    _ROLE, caller=able(Capability.SERVICES_MANAGE, impersonated=False), keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS
)
async def change_service_role(call: Call[ServiceRolePatch, None, ServiceRolePath, Member], postern: Postern) -> ServiceRoleRecord:
    """Change a role of a service

    Applications that check permissions see the change with the next request. Tokens contain it when they are next issued.
    """
    path, change = call.path, _change(call.body)
    return _record_service_role(
        await postern.services.service_roles.change(call.caller, path.service_slug, path.role_slug, change, call.actor)
    )


@endpoint.delete(_ROLE, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, limit=UNLIMITED, status=204, tags=_TAGS)
async def delete_service_role(call: Call[None, None, ServiceRolePath, Member], postern: Postern) -> NoBody:
    """Delete a role of a service

    Its assignments are deleted, too. If the service has the sign-in policy `assigned`, people without another of its roles are denied from
    the next request. The slug is never reused.
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
    """Only direct assignments to this person, not assignments through teams and roles."""
    after: UUID | None = None
    """The `next` value of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The maximum number of entries to return. Values above the maximum are rejected."""


class NewAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """The role assignment to create: exactly one of `user_id`, `organization_role` and `team`."""

    role: Annotated[Slug, example("editor")]
    """The slug of the service's role."""
    user_id: UserUuid | None = None
    """The ID of a member of the organization, or of a user of the service."""
    organization_role: Annotated[Slug, example("admin")] | None = None
    """The slug of a role of the organization. Everyone with exactly this role, directly or through a team, has the service's role."""
    team: Annotated[Slug, example("support")] | None = None
    """The slug of a team. All its members have the service's role."""


class AssignmentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A role assignment. One of `user_id`, `organization_role` and `team` is set; the others are null."""

    id: Id
    role: Annotated[str, example("editor")]
    """The slug of the service's role."""
    user_id: UUID | None = None
    """The ID of the person who has the role."""
    email: Annotated[str | None, example("ada@example.org")] = None
    """The person's email address. Only in lists, and only if you can view end users."""
    organization_role: Annotated[str | None, example("admin")] = None
    """The slug of the organization's role whose holders have the role."""
    team: Annotated[str | None, example("support")] = None
    """The slug of the team whose members have the role."""
    created_at: CreatedAt


class AssignmentList(msgspec.Struct, frozen=True):
    """One page of assignments."""

    assignments: Sequence[AssignmentRecord]
    """The assignments on this page, oldest first."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


@endpoint.get(_ASSIGNMENTS, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, tags=_TAGS)
async def list_assignments(call: Call[None, AssignmentsQuery, ServicePath, Member], postern: Postern) -> AssignmentList:
    """List role assignments

    Returns the role assignments of a service, oldest first. Each assigns a role to a person, to a role of the organization, or to a team.
    Filter by `role` or `user_id`.
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
    """Create a role assignment

    Assigns a role to a person, to everyone with a role of the organization, or to a team. An assignment to a person ends with the
    membership, or when the person is no longer a user of the service. If a directory manages a team, only the organization's owner can
    assign a role to it or to its organization role. This requires a recent sign-in or reauthentication.
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
    """Delete a role assignment

    The change applies to the next request. If the service has the sign-in policy `assigned`, people without another of its roles are
    denied. If the assignment was directly to the person, the person's sessions in the service are also revoked.
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
