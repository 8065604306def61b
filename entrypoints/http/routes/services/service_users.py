"""The users of a service and their rights in it, for the service's own servers."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, RateLimited
from core.domain.identifiers import UserId
from core.domain.services.api_keys import KeyHolder, Permission
from core.domain.services.rights import BlockReason, GivenBy, HeldRole, RightsReason
from core.domain.services.service_users import ServiceUser, ServiceUserDetail
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import key
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    EmailAddress,
    EmailText,
    Id,
    OffsetPaging,
    PersonName,
    Total,
    UserUuid,
    email_field,
    example,
    given,
)
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.tenancy.profile_fields import MetadataObject, Values

_TAGS = ("service-interface",)
_USERS = "/api/service/users"
_USER = "/api/service/users/{user_id}"


class ServiceUserPath(msgspec.Struct, frozen=True):
    user_id: UserUuid


class NewServiceUser(msgspec.Struct, frozen=True):
    """The user to add to the service."""

    email: EmailText
    """The user's email address."""


class ServiceUserPatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to a user. Omitted fields keep their values."""

    email: EmailText | msgspec.UnsetType = msgspec.UNSET
    """The new email address. Send it in a separate request, since it has additional conditions."""
    metadata: MetadataObject | msgspec.UnsetType = msgspec.UNSET
    """The metadata that your service stores about the user, at most 4096 bytes of JSON, nested 5 deep. It replaces the current metadata."""
    profile: Values | msgspec.UnsetType = msgspec.UNSET
    """The values of the organization's fields, by key. Each field must have `service` in `written_by`. Null removes a value."""


class ServiceUserRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A user of the service."""

    id: Id
    email: EmailAddress
    name: PersonName | None
    created_at: CreatedAt
    """When the account was created. Before the user's first sign-in to the service: when the account became a user of the service."""


class ServiceUserDetailRecord(ServiceUserRecord, frozen=True, kw_only=True):
    """A user of the service, with the metadata of the service and the profile fields of its organization."""

    metadata: MetadataObject
    """The metadata that your service stores about the user. Only your service, and members who can manage end users, can see it."""
    profile: Values
    """The values of the organization's fields, by key."""


class ServiceUserList(msgspec.Struct, frozen=True):
    """One page of users."""

    users: Sequence[ServiceUserRecord]
    """The users on this page, in the order in which they became users of the service."""
    total: Total


@endpoint.get(_USERS, caller=key(Permission.READ_USERS), tags=_TAGS)
async def list_service_users(call: Call[None, OffsetPaging, None, KeyHolder], postern: Postern) -> ServiceUserList:
    """List users of the service

    Returns all users who signed in to the service or were added with `POST`. They are sorted by when they became users of the service.
    """
    found = await postern.services.service_users.list(call.caller, call.query.limit, call.query.offset)
    return ServiceUserList([_record(user) for user in found.items], found.total)


@endpoint.post(_USERS, caller=key(Permission.WRITE_USERS), limit=UNLIMITED, refuses=(BadRequest, RateLimited), tags=_TAGS)
async def create_service_user(call: Call[NewServiceUser, None, None, KeyHolder], postern: Postern) -> ServiceUserRecord:
    """Add a user to the service

    If the email address has an account, this account becomes a user of the service, and the response has the unchanged account. Otherwise,
    Postern creates an account without a password. To sign in, the person resets the password, accepts an invitation, or uses an external
    account with the same email address. Postern sends no email. The request can be repeated: the response has the same user each time. An
    API key can send 60 requests at once, then one per second.
    """
    email = email_field(call.body.email, postern.foundation.email_syntax)
    return _record(await postern.services.service_users.add(call.caller, email, call.actor))


@endpoint.get(_USER, caller=key(Permission.READ_USERS), tags=_TAGS)
async def get_service_user(call: Call[None, None, ServiceUserPath, KeyHolder], postern: Postern) -> ServiceUserDetailRecord:
    """Get a user of the service

    Returns the user with the metadata of the service and the profile fields of its organization. For anyone who is not a user of the
    service, the response is 404.
    """
    return _whole(await postern.services.service_users.detail(call.caller, UserId(call.path.user_id)))


@endpoint.patch(_USER, caller=key(Permission.WRITE_USERS), limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def change_service_user(call: Call[ServiceUserPatch, None, ServiceUserPath, KeyHolder], postern: Postern) -> ServiceUserDetailRecord:
    """Change a user of the service

    To change the email address, several conditions must be met. An API key of this service created the account, and no one has verified the
    email address. The account is not a member of an organization, a user of another service, or a platform owner. The new email address is
    unverified. All sessions and magic links of the user are revoked, and Postern notifies the old email address.
    """
    body, users, user = call.body, postern.services.service_users, UserId(call.path.user_id)
    email = None if isinstance(body.email, msgspec.UnsetType) else email_field(body.email, postern.foundation.email_syntax)
    metadata, profile = given(body.metadata), given(body.profile)
    if metadata is None and profile is None:
        return _whole(await users.change_email(call.caller, user, email, call.actor))
    if email is None:
        return _whole(await users.change_kept(call.caller, user, call.actor, metadata=metadata, profile=profile))
    raise BadRequest("email: send it alone, without metadata and profile")


@endpoint.delete(_USER, caller=key(Permission.DELETE_USERS), limit=UNLIMITED, refuses=(BadRequest,), status=204, tags=_TAGS)
async def delete_service_user(call: Call[None, None, ServiceUserPath, KeyHolder], postern: Postern) -> NoBody:
    """Delete a user of the service

    Deletes all data of the service about the user: subscriptions, sessions and sign-ins. The account is deleted, too, if an API key of this
    service created it and no one else uses it. Otherwise, or while the person has a subscription at another organization, the account stays
    and is no longer a user of this service. You cannot delete owners of organizations or platform owners. This cannot be undone.
    """
    await postern.services.service_users.delete(call.caller, UserId(call.path.user_id), call.actor)
    return NO_BODY


_whole = shown(ServiceUserDetail, ServiceUserDetailRecord, within=("user",), named={"email": "user.email.address"})


_record = shown(ServiceUser, ServiceUserRecord, named={"email": "email.address"})


class RoleGrant(msgspec.Struct, frozen=True):
    """An assignment that gives the user a role. If neither a team nor a role of the organization is set, it is directly to the user."""

    assignment_id: UUID
    """The assignment's ID."""
    team: Annotated[str | None, example("support")]
    """The slug of the team that the role is assigned to."""
    organization_role: Annotated[str | None, example(None)]
    """The slug of the organization's role that the role is assigned to."""


class ServiceUserRole(msgspec.Struct, frozen=True):
    """A role of a user of the service."""

    slug: Annotated[str, example("editor")]
    """The role's slug."""
    permissions: Annotated[Sequence[str], example(["invoices:write"])]
    """The keys of the role's permissions, sorted."""
    given_to_everybody: Annotated[bool, example(False)]
    """Whether everyone who signs in to the service has the role."""
    given_by: Sequence[RoleGrant]
    """The assignments that give the user the role, oldest first."""


class ServiceUserRights(msgspec.Struct, frozen=True, kw_only=True):
    """The roles, permissions and teams of a user in a service."""

    user_id: UserUuid
    barred: Annotated[BlockReason | None, example(None)]
    """Why the user currently has no roles, whatever is assigned: the account is deactivated, or the service does not admit the user. Null
    otherwise. If the user has never signed in to the service nor confirmed a membership, this does not show whether the account is
    deactivated.
    """
    roles: Sequence[ServiceUserRole]
    """The user's roles, sorted by slug."""
    permissions: Annotated[Sequence[str], example(["invoices:write"])]
    """The permissions of these roles, sorted."""
    teams: Annotated[Sequence[str], example(["support"])]
    """The slugs of the user's teams in the organization, sorted."""


class PermissionCheck(msgspec.Struct, frozen=True):
    """The user and the permission to check."""

    user_id: UserUuid
    permission: Annotated[str, msgspec.Meta(max_length=200), example("invoices:write")]
    """The key of the permission."""


class PermissionCheckReason(msgspec.Struct, frozen=True, kw_only=True):
    """The reason for the result."""

    reason: Annotated[RightsReason, example("role")]
    """`role`: a role of the user has the permission. Otherwise: the service has no such permission, the account is deactivated, the service
    does not admit the user, or no role has it.
    """
    role: Annotated[str | None, example("editor")]
    """The slug of a role that has the permission."""
    given_by: RoleGrant | None
    """An assignment that gives the user this role; null if everyone has the role."""


class PermissionCheckResult(msgspec.Struct, frozen=True):
    """The result of the check, and the reason."""

    allowed: Annotated[bool, example(True)]
    """Whether the user has the permission."""
    because: PermissionCheckReason
    """The reason for the result."""


@endpoint.get("/api/service/users/{user_id}/rights", caller=key(Permission.READ_USERS), tags=_TAGS)
async def get_service_user_rights(call: Call[None, None, ServiceUserPath, KeyHolder], postern: Postern) -> ServiceUserRights:
    """Get the rights of a user of the service

    Returns the user's roles, permissions and teams. Each role has the assignments that give it to the user. The response is never older
    than the request.
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
    """Check a user's permission

    For servers that check each action and do not cache permissions. The response is never older than the request.
    """
    verdict = await postern.services.rights.check(call.caller, UserId(call.body.user_id), call.body.permission)
    by = None if verdict.by is None else _grant(verdict.by)
    return PermissionCheckResult(verdict.is_allowed, PermissionCheckReason(reason=verdict.reason, role=verdict.role, given_by=by))


def _role(role: HeldRole) -> ServiceUserRole:
    return ServiceUserRole(role.slug, role.permissions, role.given_to_everybody, [_grant(by) for by in role.given_by])


def _grant(by: GivenBy) -> RoleGrant:
    return RoleGrant(by.assignment, by.team, by.organization_role)
