"""The roles that an organization adds to owner, admin and member."""

from collections.abc import Sequence
from typing import Annotated, TypeVar
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import RoleId
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability, Role
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import MEMBER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    Id,
    Name,
    OrganizationPath,
    OrganizationUuid,
    RoleDescription,
    RoleSlug,
    UpdatedAt,
    Word,
    example,
    given,
)
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.machinery.step_up import with_proof_if_needed

Value = TypeVar("Value")

_TAGS = ("roles",)
_ROLES = "/api/organizations/{org_slug}/roles"
_ROLE = "/api/organizations/{org_slug}/roles/{role_id}"


class RolePath(OrganizationPath, frozen=True):
    role_id: UUID
    """The role's ID."""


class NewRole(msgspec.Struct, frozen=True):
    """A custom role to create."""

    slug: Annotated[RoleSlug, example("support")]
    """1 to 50 characters: a-z, 0-9, - and _. The slug never changes."""
    name: Annotated[Name, example("Support")]
    """1 to 100 characters."""
    permissions: Annotated[Sequence[Word], example(["end_users.view", "end_users.manage"])]
    """The permissions of the role. You cannot grant permissions that you do not have."""
    description: Annotated[RoleDescription, example("Looks after end users")] = ""
    """Up to 500 characters."""


class RolePatch(msgspec.Struct, frozen=True):
    """A change of a custom role. Omitted fields keep their values."""

    name: Annotated[Name, example("Support")] | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    description: Annotated[RoleDescription, example("Looks after end users")] | msgspec.UnsetType = msgspec.UNSET
    """Up to 500 characters."""
    permissions: Annotated[Sequence[Word], example(["end_users.view", "end_users.manage"])] | msgspec.UnsetType = msgspec.UNSET
    """The permissions of the role. The list replaces the previous one."""


class RoleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A custom role of an organization."""

    id: Id
    org_id: OrganizationUuid
    slug: Annotated[str, example("support")]
    """The role's slug, which never changes."""
    name: Annotated[str, example("Support")]
    """The role's name."""
    description: Annotated[str, example("Looks after end users")]
    """The role's description."""
    permissions: Annotated[Sequence[Capability], example(["end_users.view", "end_users.manage"])]
    """The permissions of the role."""
    created_at: CreatedAt
    updated_at: UpdatedAt


@endpoint.get(_ROLES, caller=MEMBER, keys=Capability.MEMBERS_VIEW, tags=_TAGS)
async def list_roles(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[RoleRecord]:
    """List the custom roles of an organization

    Return all custom roles, sorted by slug. An organization can have at most 100. The built-in roles owner, admin and member are not
    included.
    """
    return [_record(role) for role in await postern.tenancy.roles.list(call.caller)]


@endpoint.post(
    _ROLES,
    caller=able(Capability.ROLES_MANAGE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    status=201,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def create_role(call: Call[NewRole, None, OrganizationPath, Member], postern: Postern) -> RoleRecord:
    """Create a custom role

    You cannot grant permissions that you do not have. Some permissions include others. `org.members.manage` includes the permissions of the
    role `member` (`org.members.view`, `services.view`, `end_users.view`). `webhooks.manage` includes read access to all data in the
    organization's events, including earlier events through a replay.
    """
    body = call.body
    role = await postern.tenancy.roles.create(
        call.caller, body.slug, call.actor, name=body.name, description=body.description, permissions=body.permissions
    )
    return _record(role)


@endpoint.get(_ROLE, caller=MEMBER, keys=Capability.MEMBERS_VIEW, tags=_TAGS)
async def get_role(call: Call[None, None, RolePath, Member], postern: Postern) -> RoleRecord:
    """Get a custom role

    Return the role with its permissions.
    """
    return _record(await postern.tenancy.roles.get(call.caller, RoleId(call.path.role_id)))


@endpoint.patch(
    _ROLE,
    caller=able(Capability.ROLES_MANAGE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def change_role(call: Call[RolePatch, None, RolePath, Member], postern: Postern) -> RoleRecord:
    """Change a custom role

    New permissions apply from the members' next requests on. You can change a role only if you have all of its permissions, both the old
    and the new ones. If a team has the role and a directory manages the team, only the owner can add permissions, after recent
    reauthentication. Such a role cannot get `org.roles.manage`.
    """
    body = call.body
    role = await with_proof_if_needed(
        call.request,
        postern,
        lambda proved: postern.tenancy.roles.change(
            call.caller,
            RoleId(call.path.role_id),
            call.actor,
            name=given(body.name),
            description=given(body.description),
            permissions=given(body.permissions),
            proved=proved,
        ),
    )
    return _record(role)


@endpoint.delete(_ROLE, caller=able(Capability.ROLES_MANAGE, impersonated=True), keys=True, status=204, refuses=(Conflict,), tags=_TAGS)
async def delete_role(call: Call[None, None, RolePath, Member], postern: Postern) -> NoBody:
    """Delete a custom role

    You cannot delete a role while a member or a team has it, or a pending invitation offers it.
    """
    await postern.tenancy.roles.delete(call.caller, RoleId(call.path.role_id), call.actor)
    return NO_BODY


_record = shown(
    Role,
    RoleRecord,
    named={"org_id": "organization"},
    permissions=lambda role: [capability for capability in Capability if capability in role.permissions],
)
