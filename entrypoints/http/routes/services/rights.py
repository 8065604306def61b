"""People's rights in a service, for the service's own servers."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import UserId
from core.domain.services.api_keys import KeyHolder, Permission
from core.domain.services.rights import BlockReason, GivenBy, HeldRole, RightsReason
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import key
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import UserUuid, example
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.services.service_users import ServiceUserPath

_TAGS = ("service-interface",)


class RoleGrant(msgspec.Struct, frozen=True):
    """An assignment that gives a person a role: to the person, if neither a team nor a role of the organization is named."""

    assignment_id: UUID
    """The assignment's id."""
    team: Annotated[str | None, example("support")]
    """The slug of the team that the role is assigned to."""
    organization_role: Annotated[str | None, example(None)]
    """The slug of the organization's role that the role is assigned to."""


class ServiceUserRole(msgspec.Struct, frozen=True):
    """A role that a user of the service holds."""

    slug: Annotated[str, example("editor")]
    """The role's slug."""
    permissions: Annotated[Sequence[str], example(["invoices:write"])]
    """The keys of the role's permissions, sorted."""
    given_to_everybody: Annotated[bool, example(False)]
    """Whether everybody who signs in to the service holds the role."""
    given_by: Sequence[RoleGrant]
    """The assignments that give the role to the user, the oldest first."""


class ServiceUserRights(msgspec.Struct, frozen=True, kw_only=True):
    """What a user of the service may do in it."""

    user_id: UserUuid
    barred: Annotated[BlockReason | None, example(None)]
    """Why the user holds no role now, whatever is assigned: the account is deactivated, or the service does not admit the user; else null.
    Of people who never came to the service or its organization by themselves, this does not say whether the account is deactivated.
    """
    roles: Sequence[ServiceUserRole]
    """The roles that the user holds, by slug."""
    permissions: Annotated[Sequence[str], example(["invoices:write"])]
    """The permissions that these roles have, sorted."""
    teams: Annotated[Sequence[str], example(["support"])]
    """The slugs of the organization's teams that the user is in, sorted."""


class PermissionCheck(msgspec.Struct, frozen=True):
    """A user of the service, and a permission."""

    user_id: UserUuid
    permission: Annotated[str, msgspec.Meta(max_length=200), example("invoices:write")]
    """The permission's key."""


class PermissionCheckReason(msgspec.Struct, frozen=True, kw_only=True):
    """The reason of an answer."""

    reason: Annotated[RightsReason, example("role")]
    """`role`: a role gives the permission. Otherwise the service has no such permission, the account is deactivated, the service does not
    admit the user, or none of the user's roles has the permission.
    """
    role: Annotated[str | None, example("editor")]
    """The slug of a role that gives the permission."""
    given_by: RoleGrant | None
    """An assignment that gives the user this role; null if everybody holds the role."""


class PermissionCheckResult(msgspec.Struct, frozen=True):
    """Whether the user has the permission, and why."""

    allowed: Annotated[bool, example(True)]
    """Whether the user has the permission."""
    because: PermissionCheckReason
    """The reason."""


@endpoint.get("/api/service/users/{user_id}/rights", caller=key(Permission.READ_USERS), tags=_TAGS)
async def get_service_user_rights(call: Call[None, None, ServiceUserPath, KeyHolder], postern: Postern) -> ServiceUserRights:
    """Get the roles, permissions and teams of a user of the service

    Each role names the assignments that give it. The answer is never older than the request.
    """
    user = UserId(call.path.user_id)
    explained = await postern.services.rights.explain(call.caller, user)
    return ServiceUserRights(
        user_id=user,
        barred=explained.barred,
        roles=[_role(role) for role in explained.roles],
        permissions=explained.rights.permissions,
        teams=explained.teams,
    )


@endpoint.post("/api/service/check", caller=key(Permission.READ_USERS), limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def check_permission(call: Call[PermissionCheck, None, None, KeyHolder], postern: Postern) -> PermissionCheckResult:
    """Ask whether a user of the service has a permission

    For servers that ask at each act and keep no rights. The answer is never older than the request.
    """
    verdict = await postern.services.rights.check(call.caller, UserId(call.body.user_id), call.body.permission)
    by = None if verdict.by is None else _grant(verdict.by)
    return PermissionCheckResult(verdict.is_allowed, PermissionCheckReason(reason=verdict.reason, role=verdict.role, given_by=by))


def _role(role: HeldRole) -> ServiceUserRole:
    return ServiceUserRole(role.slug, role.permissions, role.given_to_everybody, [_grant(by) for by in role.given_by])


def _grant(by: GivenBy) -> RoleGrant:
    return RoleGrant(by.assignment, by.team, by.organization_role)
