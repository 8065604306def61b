"""The users of a service, for the service's own servers."""

from collections.abc import Sequence

import msgspec

from core.domain.errors import BadRequest, RateLimited
from core.domain.identifiers import UserId
from core.domain.services.api_keys import KeyHolder, Permission
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
    PersonName,
    Total,
    UserUuid,
    email_field,
    given,
)
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.machinery.paging import OffsetPaging
from entrypoints.http.routes.tenancy.profile_values import MetadataObject, Values

_TAGS = ("service-interface",)
_USERS = "/api/service/users"
_USER = "/api/service/users/{user_id}"


class ServiceUserPath(msgspec.Struct, frozen=True):
    user_id: UserUuid


class NewServiceUser(msgspec.Struct, frozen=True):
    """The address of the user."""

    email: EmailText
    """The user's address."""


class ServiceUserPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a user. A field that you leave out stays as it is."""

    email: EmailText | msgspec.UnsetType = msgspec.UNSET
    """The new address. Send it alone, since it may be refused for reasons of its own."""
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
    """What your service keeps of the user. Nobody else sees it but those who manage the organization's end users."""
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

    If the address already has an account, this account becomes a user of the service, and the answer shows it unchanged. Otherwise we
    create an account without a password. The account's person gets in by resetting the password, by an invitation, or with an external
    account of the same address. We send no mail. You may repeat this: the answer is the same user each time, and no error. A key may do
    this 60 times at once, then once a second.
    """
    email = email_field(call.body.email, postern.foundation.email_syntax)
    return _record(await postern.services.service_users.add(call.caller, email, call.actor))


@endpoint.get(_USER, caller=key(Permission.READ_USERS), tags=_TAGS)
async def get_service_user(call: Call[None, None, ServiceUserPath, KeyHolder], postern: Postern) -> ServiceUserDetailRecord:
    """Get a user of the service

    The answer has what the service and its organization keep of the user. Somebody who is no user of the service is not found.
    """
    return _whole(await postern.services.service_users.detail(call.caller, UserId(call.path.user_id)))


@endpoint.patch(_USER, caller=key(Permission.WRITE_USERS), limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def change_service_user(call: Call[ServiceUserPatch, None, ServiceUserPath, KeyHolder], postern: Postern) -> ServiceUserDetailRecord:
    """Change what is kept of a user, or the user's e-mail address

    A change of the address is only possible if a key of this service created the account, nobody has proved the address, and the account
    belongs to no organization, no other service and no platform owner. The new address counts as unverified, and all of the user's sessions
    and mailed links end. We tell the old address by mail.
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

    We delete all that the service has about the user: subscriptions, sessions, sign-ins. If a key of this service created the account and
    nobody else holds it, we delete the account as well, unless the person has a subscription at another organization; otherwise the account
    stays, and is no longer a user of this service. This cannot be undone. You cannot delete owners of organizations or of the platform.
    """
    await postern.services.service_users.delete(call.caller, UserId(call.path.user_id), call.actor)
    return NO_BODY


_whole = shown(ServiceUserDetail, ServiceUserDetailRecord, within=("user",), named={"email": "user.email.address"})


_record = shown(ServiceUser, ServiceUserRecord, named={"email": "email.address"})
