"""The end users of an organization's services, for the members who manage them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import ServiceId, UserId
from core.domain.services.service_users import LONGEST_SEARCH, EndUser, EndUserDetail, LockedOut, UsedIdentity
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    EmailAddress,
    HasSecondFactor,
    Id,
    MessageText,
    OrganizationPath,
    Pagination,
    Paging,
    PersonName,
    ServiceUuid,
    UpdatedAt,
    UserUuid,
    example,
    page_of,
)
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.identity.identities import IdentityRecord

_TAGS = ("end-users",)


class EndUserPath(OrganizationPath, frozen=True):
    user_id: UserUuid


class UserLockedOut(msgspec.Struct, frozen=True):
    """What was revoked."""

    account_locked: Annotated[bool, example(False)]
    """Whether the account was locked. If not, the organization does not control the account, and only its own sessions and keys were
    revoked.
    """
    sessions_ended: Annotated[int, example(2)]
    """The number of sessions revoked."""
    keys_ended: Annotated[int, example(1)]
    """The number of the person's user API keys revoked."""


class EndUsersQuery(Paging, frozen=True, kw_only=True):
    """`search` is a part of the e-mail address, in any case; `service_id` is one of the organization's services."""

    search: Annotated[str, msgspec.Meta(max_length=LONGEST_SEARCH, examples=["ada@"])] = ""
    """A part of the email address, case-insensitive."""
    service_id: ServiceUuid | None = None
    """Only users of this service."""


class EndUserSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An end user of the organization's services. If the user never signed in to one of them, account details are not shown."""

    id: Id
    email: EmailAddress
    name: PersonName | None
    created_at: CreatedAt
    """When the account was created. If the user never signed in to one of the organization's services: when the account became a user of
    it.
    """
    last_login_at: datetime | None
    """When the user last signed in to one of this organization's services; null if never."""
    mfa_enabled: HasSecondFactor
    services: Annotated[Sequence[str], example(["billing"])]
    """The slugs of this organization's services that the person uses."""


class EndUserList(msgspec.Struct, frozen=True):
    """One page of end users."""

    users: Sequence[EndUserSummary]
    """The end users on this page, newest account first."""
    pagination: Pagination
    """The position of this page in the list."""


class EndUserService(msgspec.Struct, frozen=True):
    """A service that the end user uses."""

    id: Id
    slug: Annotated[str, example("billing")]
    """The service's slug."""
    name: Annotated[str, example("Billing")]
    """The service's name."""
    first_login_at: datetime | None
    """When the user first signed in to the service; null if never."""
    last_login_at: datetime | None
    """When the user last signed in to the service; null if never."""
    metadata: Annotated[Mapping[str, Any], example({"crm_id": "4711"})] | None
    """The metadata that the service stores about the user; null if you cannot manage end users."""


class EndUserSessions(msgspec.Struct, frozen=True):
    """The user's active sessions in this organization's services."""

    active_count: Annotated[int, example(2)]
    """The number of active sessions."""
    last_created_at: datetime | None
    """When the latest session started; null if there is none."""


class EndUserDetailRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An end user of the organization's services. If the user never signed in to one of them, account details are not shown."""

    id: Id
    email: EmailAddress
    name: PersonName | None
    email_verified: bool
    """Whether the email address is verified; false if the user never signed in."""
    created_at: CreatedAt
    """When the account was created. If the user never signed in to one of the organization's services: when the account became a user of
    it.
    """
    updated_at: UpdatedAt
    """When the account was last changed; the same as `created_at` if the user never signed in."""
    last_login_at: datetime | None
    """When the user last signed in to one of this organization's services; null if never."""
    mfa_enabled: HasSecondFactor
    linked_identities: Sequence[IdentityRecord]
    """Accounts at external providers that the user can sign in with."""
    services: Sequence[EndUserService]
    """The services of this organization that the person uses."""
    sessions: EndUserSessions
    """The user's active sessions in this organization's services."""


class SessionsRevoked(msgspec.Struct, frozen=True):
    """The number of revoked sessions."""

    message: MessageText
    sessions_revoked: Annotated[int, example(2)]
    """The number of sessions revoked."""


_summary = shown(EndUser, EndUserSummary, named={"email": "email.address"})
_identity = shown(UsedIdentity, IdentityRecord, named={"provider_user_id": "subject"}, email=lambda one: one.email or None)
_answer = shown(
    EndUserDetail,
    EndUserDetailRecord,
    given=("services",),
    named={"email": "email.address"},
    linked_identities=lambda found: [_identity(one) for one in found.identities],
    sessions=lambda found: EndUserSessions(found.active_sessions, found.last_session_at),
)


@endpoint.get(
    "/api/organizations/{org_slug}/users",
    caller=able(Capability.END_USERS_VIEW, impersonated=True),
    keys=True,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def list_end_users(call: Call[None, EndUsersQuery, OrganizationPath, Member], postern: Postern) -> EndUserList:
    """List end users

    Returns the end users of the organization's services, newest account first. Counts and searches stop at 10 000 users. A `total` of 10
    000 means "10 000 or more", and later pages are rejected with 400. Searches of one organization run one after the other. If too many are
    waiting, the response is 503. For a `service_id` of another organization, the response is 404.
    """
    query = call.query
    service = None if query.service_id is None else ServiceId(query.service_id)
    found = await postern.services.end_users.list(call.caller.organization, page_of(query), search=query.search, service=service)
    return EndUserList(
        [_summary(one) for one in found.items],
        Pagination(query.page, query.limit, found.total),
    )


@endpoint.get(
    "/api/organizations/{org_slug}/users/{user_id}", caller=able(Capability.END_USERS_VIEW, impersonated=True), keys=True, tags=_TAGS
)
async def get_end_user(call: Call[None, None, EndUserPath, Member], postern: Postern) -> EndUserDetailRecord:
    """Get an end user

    Returns the services of the organization that the person uses, and the active sessions in them.
    """
    found = await postern.services.end_users.get(call.caller.organization, UserId(call.path.user_id))
    manages = call.caller.may(Capability.END_USERS_MANAGE)
    return _answer(
        found,
        services=[
            EndUserService(one.id, one.slug, one.name, one.first_login_at, one.last_login_at, one.metadata if manages else None)
            for one in found.services
        ],
    )


@endpoint.delete(
    "/api/organizations/{org_slug}/users/{user_id}/sessions",
    caller=able(Capability.END_USERS_MANAGE, impersonated=True),
    keys=True,
    tags=_TAGS,
)
async def revoke_end_user_sessions(call: Call[None, None, EndUserPath, Member], postern: Postern) -> SessionsRevoked:
    """Revoke the sessions of an end user

    Signs the user out of the organization's services. From the next request, the user's sessions and refresh tokens for them are rejected.
    Authorization codes and approved devices without a session are revoked, too. Sessions elsewhere, and the user's membership in the
    organization, stay. The request can be repeated safely.
    """
    ended = await postern.services.end_users.end_sessions(call.caller.organization, UserId(call.path.user_id), call.actor)
    return SessionsRevoked("The end user is signed out of the organization's services", ended)


@endpoint.delete(
    "/api/organizations/{org_slug}/members/{user_id}/sessions",
    caller=able(Capability.MEMBERS_MANAGE, impersonated=True),
    keys=True,
    tags=("members",),
)
async def revoke_member_sessions(call: Call[None, None, EndUserPath, Member], postern: Postern) -> SessionsRevoked:
    """Revoke the sessions of a member

    Signs the member out of the organization and its services. From the next request, the member's sessions and refresh tokens for them are
    rejected. Authorization codes and approved devices without a session are revoked, too. Sessions elsewhere and the membership stay: the
    member can sign in again. The request can be repeated safely.
    """
    user = UserId(call.path.user_id)
    ended = await postern.services.end_users.end_sessions(call.caller.organization, user, call.actor, of_member=True)
    return SessionsRevoked("The member is signed out of the organization and its services", ended)


@endpoint.post(
    "/api/organizations/{org_slug}/users/{user_id}/lock",
    caller=able(Capability.END_USERS_MANAGE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def lock_end_user(call: Call[None, None, EndUserPath, Member], postern: Postern) -> UserLockedOut:
    """Lock an end user's account

    Use this if someone else may have access to the account. If the organization created the account and no one else uses it, the account is
    locked. Everything that gives access is revoked, including the password. The person gets an email with a link to set a new password. For
    any other person, the sessions in the organization's services and the keys for its applications are revoked. The request can be repeated
    safely.
    """
    return _locked_out(await postern.services.end_users.lock(call.caller, UserId(call.path.user_id), call.actor))


@endpoint.post(
    "/api/organizations/{org_slug}/members/{user_id}/lock",
    caller=able(Capability.MEMBERS_MANAGE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    refuses=(BadRequest,),
    tags=("members",),
)
async def lock_member(call: Call[None, None, EndUserPath, Member], postern: Postern) -> UserLockedOut:
    """Lock a member's account

    Use this if someone else may have access to the account. If the organization created the account and no one else uses it, the account is
    locked. Everything that gives access is revoked, including the password. The person gets an email with a link to set a new password. For
    any other member, the sessions in the organization and its services, and the keys for its applications, are revoked. The membership
    stays. You cannot lock yourself, or anyone with more rights than you. The request can be repeated safely.
    """
    return _locked_out(await postern.services.end_users.lock(call.caller, UserId(call.path.user_id), call.actor, of_member=True))


def _locked_out(done: LockedOut) -> UserLockedOut:
    return UserLockedOut(done.account_locked, done.sessions, done.keys)
