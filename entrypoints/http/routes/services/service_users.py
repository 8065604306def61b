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
    """The URL of the user."""

    email: EmailText
    """The user's email address."""


class ServiceUserPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a user. An omitted field keeps its value."""

    email: EmailText | msgspec.UnsetType = msgspec.UNSET
    """The new email address. Send it alone, since it may be refused for reasons of its own."""
    metadata: MetadataObject | msgspec.UnsetType = msgspec.UNSET
    """What your service keeps of the user, in place of the old metadata: at most 4096 bytes of JSON, nested 5 deep."""
    profile: Values | msgspec.UnsetType = msgspec.UNSET
    """Values of the organization's fields, by key, as far as `service` is in `written_by`; null removes a value."""


class ServiceUserRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A user of the service."""

    id: Id
    email: EmailAddress
    name: PersonName | None
    created_at: CreatedAt
    """When the account was created. Before the user's first sign-in to the service: when the account became a user of the service."""


class ServiceUserDetailRecord(ServiceUserRecord, frozen=True, kw_only=True):
    """A user of the service, with what the service and its organization keep of the user."""

    metadata: MetadataObject
    """What your service keeps of the user. No one else sees it but those who manage the organization's end users."""
    profile: Values
    """The values of the organization's fields, by key."""


class ServiceUserList(msgspec.Struct, frozen=True):
    """One page of users."""

    users: Sequence[ServiceUserRecord]
    """The users on this page, in the order in which they came to the service."""
    total: Total


@endpoint.get(_USERS, caller=key(Permission.READ_USERS), tags=_TAGS)
async def list_service_users(call: Call[None, OffsetPaging, None, KeyHolder], postern: Postern) -> ServiceUserList:
    """List the users of the service

    You get every user who signed in to the service, and every user whom you created with `POST`, in the order in which they became users of
    the service.
    """
    found = await postern.services.service_users.list(call.caller, call.query.limit, call.query.offset)
    return ServiceUserList([_record(user) for user in found.items], found.total)


@endpoint.post(_USERS, caller=key(Permission.WRITE_USERS), limit=UNLIMITED, refuses=(BadRequest, RateLimited), tags=_TAGS)
async def create_service_user(call: Call[NewServiceUser, None, None, KeyHolder], postern: Postern) -> ServiceUserRecord:
    """Add a user to the service

    If the address already has an account, this account becomes a user of the service, and the answer shows it unchanged. Otherwise Postern
    creates an account without a password. The account's person gets in by resetting the password, by an invitation, or with an external
    account of the same email address. Postern sends no mail. You may repeat this: the response is the same user each time, and no error. A
    key may do this 60 times at once, then once a second.
    """
    email = email_field(call.body.email, postern.foundation.email_syntax)
    return _record(await postern.services.service_users.add(call.caller, email, call.actor))


@endpoint.get(_USER, caller=key(Permission.READ_USERS), tags=_TAGS)
async def get_service_user(call: Call[None, None, ServiceUserPath, KeyHolder], postern: Postern) -> ServiceUserDetailRecord:
    """Get a user of the service

    The response has what the service and its organization keep of the user. Someone who is no user of the service is not found.
    """
    return _whole(await postern.services.service_users.detail(call.caller, UserId(call.path.user_id)))


@endpoint.patch(_USER, caller=key(Permission.WRITE_USERS), limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def change_service_user(call: Call[ServiceUserPatch, None, ServiceUserPath, KeyHolder], postern: Postern) -> ServiceUserDetailRecord:
    """Change a user's data or email address

    A change of the address is only possible if a key of this service created the account, no one has verified the address, and the account
    belongs to no organization, no other service and no platform owner. The new email address counts as unverified, and all of the user's
    sessions and magic links end. Postern notifies the old address by email.
    """
    body, users, user = call.body, postern.services.service_users, UserId(call.path.user_id)
    email = None if isinstance(body.email, msgspec.UnsetType) else email_field(body.email, postern.foundation.email_syntax)
    metadata, profile = given(body.metadata), given(body.profile)
    if metadata is None and profile is None:
        return _whole(await users.change_email(call.caller, user, email, call.actor))
    if email is None:
        return _whole(await users.change_kept(call.caller, user, call.actor, metadata=metadata, profile=profile))
    raise BadRequest("email: send it without metadata and profile")


@endpoint.delete(_USER, caller=key(Permission.DELETE_USERS), limit=UNLIMITED, refuses=(BadRequest,), status=204, tags=_TAGS)
async def delete_service_user(call: Call[None, None, ServiceUserPath, KeyHolder], postern: Postern) -> NoBody:
    """Delete a user of the service

    Postern deletes all that the service has about the user: subscriptions, sessions, sign-ins. If a key of this service created the account
    and no one else holds it, Postern deletes the account as well, unless the person has a subscription at another organization; otherwise
    the account stays, and is no longer a user of this service. This cannot be undone. You cannot delete owners of organizations or of the
    platform.
    """
    await postern.services.service_users.delete(call.caller, UserId(call.path.user_id), call.actor)
    return NO_BODY


_whole = shown(ServiceUserDetail, ServiceUserDetailRecord, within=("user",), named={"email": "user.email.address"})


_record = shown(ServiceUser, ServiceUserRecord, named={"email": "email.address"})


class RoleGrant(msgspec.Struct, frozen=True):
    """An assignment that gives a person a role: to the person, if neither a team nor a role of the organization is named."""

    assignment_id: UUID
    """The assignment's ID."""
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
    """Whether everyone who signs in to the service holds the role."""
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
    """An assignment that gives the user this role; null if everyone holds the role."""


class PermissionCheckResult(msgspec.Struct, frozen=True):
    """Whether the user has the permission, and why."""

    allowed: Annotated[bool, example(True)]
    """Whether the user has the permission."""
    because: PermissionCheckReason
    """The reason."""


@endpoint.get("/api/service/users/{user_id}/rights", caller=key(Permission.READ_USERS), tags=_TAGS)
async def get_service_user_rights(call: Call[None, None, ServiceUserPath, KeyHolder], postern: Postern) -> ServiceUserRights:
    """Get the roles, permissions and teams of a user of the service

    Each role names the assignments that give it. The response is never older than the request.
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
    """Check whether a user of the service has a permission

    For servers that ask at each act and keep no rights. The response is never older than the request.
    """
    verdict = await postern.services.rights.check(call.caller, UserId(call.body.user_id), call.body.permission)
    by = None if verdict.by is None else _grant(verdict.by)
    return PermissionCheckResult(verdict.is_allowed, PermissionCheckReason(reason=verdict.reason, role=verdict.role, given_by=by))


def _role(role: HeldRole) -> ServiceUserRole:
    return ServiceUserRole(role.slug, role.permissions, role.given_to_everybody, [_grant(by) for by in role.given_by])


def _grant(by: GivenBy) -> RoleGrant:
    return RoleGrant(by.assignment, by.team, by.organization_role)
