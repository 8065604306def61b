"""The roles that an organization adds to owner, admin and member."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import RoleId
from core.domain.members import Member
from core.domain.roles import Capability, Role
from entrypoints.bootstrap import Services
from entrypoints.http.answers import NO_BODY, NoBody
from entrypoints.http.callers import MEMBER, able
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint

Value = TypeVar("Value")

_TAGS = ("roles",)
_ROLES = "/api/organizations/{org_slug}/roles"
_ROLE = "/api/organizations/{org_slug}/roles/{role_id}"


class RolesPath(msgspec.Struct, frozen=True):
    org_slug: str


class RolePath(msgspec.Struct, frozen=True):
    org_slug: str
    role_id: UUID


class NewRole(msgspec.Struct, frozen=True):
    slug: str
    name: str
    permissions: Sequence[str]
    description: str = ""


class RolePatch(msgspec.Struct, frozen=True):
    """What is left out stays. `permissions` are replaced, not merged."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType = msgspec.UNSET
    permissions: Sequence[str] | msgspec.UnsetType = msgspec.UNSET


class RoleRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    org_id: UUID
    slug: str
    name: str
    description: str
    permissions: Sequence[Capability]
    created_at: datetime
    updated_at: datetime


@endpoint.get(_ROLES, caller=MEMBER, tags=_TAGS)
async def list_roles(call: Call[None, None, RolesPath, Member], services: Services) -> Sequence[RoleRecord]:
    """The organization's own roles, by slug

    All of them, 100 at most. Owner, admin and member are built in and not among them.
    """
    return [_record(role) for role in await services.roles.list(call.caller)]


@endpoint.post(_ROLES, caller=able(Capability.ROLES_MANAGE), status=201, refuses=(BadRequest, Conflict), tags=_TAGS)
async def create_role(call: Call[NewRole, None, RolesPath, Member], services: Services) -> RoleRecord:
    """Add a role

    `slug` is 1 to 50 of a-z, 0-9, - and _, and never changes; `name` 1 to 100 characters, `description` up to 500. Nobody grants what they
    do not hold themselves.
    """
    body = call.body
    role = await services.roles.create(
        call.caller, body.slug, call.actor, name=body.name, description=body.description, permissions=body.permissions
    )
    return _record(role)


@endpoint.get(_ROLE, caller=MEMBER, tags=_TAGS)
async def role_detail(call: Call[None, None, RolePath, Member], services: Services) -> RoleRecord:
    """One of the organization's own roles"""
    return _record(await services.roles.get(call.caller, RoleId(call.path.role_id)))


@endpoint.patch(_ROLE, caller=able(Capability.ROLES_MANAGE), refuses=(BadRequest,), tags=_TAGS)
async def change_role(call: Call[RolePatch, None, RolePath, Member], services: Services) -> RoleRecord:
    """Change a role

    Whoever has it may do what it permits from their next request on. A role that permits, before or after, what the caller does not hold is
    not theirs to change.
    """
    body = call.body
    role = await services.roles.change(
        call.caller,
        RoleId(call.path.role_id),
        call.actor,
        name=_given(body.name),
        description=_given(body.description),
        permissions=_given(body.permissions),
    )
    return _record(role)


@endpoint.delete(_ROLE, caller=able(Capability.ROLES_MANAGE), status=204, refuses=(Conflict,), tags=_TAGS)
async def delete_role(call: Call[None, None, RolePath, Member], services: Services) -> NoBody:
    """Delete a role

    Not while a member has it or a pending invitation offers it.
    """
    await services.roles.delete(call.caller, RoleId(call.path.role_id), call.actor)
    return NO_BODY


def _given(value: Value | msgspec.UnsetType) -> Value | None:
    return None if isinstance(value, msgspec.UnsetType) else value


def _record(role: Role) -> RoleRecord:
    return RoleRecord(
        id=role.id,
        org_id=role.organization,
        slug=role.slug,
        name=role.name,
        description=role.description,
        permissions=[capability for capability in Capability if capability in role.permissions],
        created_at=role.created_at,
        updated_at=role.updated_at,
    )
