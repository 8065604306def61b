"""The users of a service, for the service's own servers."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from core.domain.api_keys import KeyHolder, Permission
from core.domain.errors import BadRequest
from core.domain.identifiers import UserId
from core.domain.service_users import ServiceUser
from entrypoints.bootstrap import Services
from entrypoints.http.answers import NO_BODY, NoBody
from entrypoints.http.callers import key
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.fields import email_field
from entrypoints.http.paging import OffsetPaging

_TAGS = ("service-interface",)
_USERS = "/api/service/users"
_USER = "/api/service/users/{user_id}"


class ServiceUserPath(msgspec.Struct, frozen=True):
    user_id: UUID


class NewServiceUser(msgspec.Struct, frozen=True):
    email: str


class ServiceUserPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What is left out stays."""

    email: str | msgspec.UnsetType = msgspec.UNSET


class ServiceUserRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`created_at` is the account's, which may be older than its way to this service."""

    id: UUID
    email: str
    created_at: datetime


class ServiceUserList(msgspec.Struct, frozen=True):
    """One page of them, and how many there are in all."""

    users: Sequence[ServiceUserRecord]
    total: int


@endpoint.get(_USERS, caller=key(Permission.READ_USERS), tags=_TAGS)
async def list_service_users(call: Call[None, OffsetPaging, None, KeyHolder], services: Services) -> ServiceUserList:
    """The users of the service

    Whoever signed in to it, or was made by `POST`, in the order in which they became its users.
    """
    found = await services.service_users.list(call.caller, call.query.limit, call.query.offset)
    return ServiceUserList([_record(user) for user in found.items], found.total)


@endpoint.post(_USERS, caller=key(Permission.WRITE_USERS), refuses=(BadRequest,), tags=_TAGS)
async def create_service_user(call: Call[NewServiceUser, None, None, KeyHolder], services: Services) -> ServiceUserRecord:
    """Make a user of the service

    If somebody has an account with this e-mail address, that becomes a user of the service and is returned, as it is. Otherwise there is a
    new one, without a password: its owner gets in with an external account of the same address, by a mail that resets the password, or by
    an invitation. Nobody is mailed. Saying it twice changes nothing.
    """
    email = email_field(call.body.email, services.email_syntax)
    return _record(await services.service_users.add(call.caller, email, call.actor))


@endpoint.get(_USER, caller=key(Permission.READ_USERS), tags=_TAGS)
async def service_user(call: Call[None, None, ServiceUserPath, KeyHolder], services: Services) -> ServiceUserRecord:
    """A user of the service"""
    return _record(await services.service_users.get(call.caller, UserId(call.path.user_id)))


@endpoint.patch(_USER, caller=key(Permission.WRITE_USERS), refuses=(BadRequest,), tags=_TAGS)
async def change_service_user(call: Call[ServiceUserPatch, None, ServiceUserPath, KeyHolder], services: Services) -> ServiceUserRecord:
    """Change a user's e-mail address

    Only of an account that came to be through this service and that nothing else holds: no organization, no other service, no office. The
    new address counts as unverified, and all of the user's sessions and mailed links end.
    """
    given = call.body.email
    email = None if isinstance(given, msgspec.UnsetType) else email_field(given, services.email_syntax)
    return _record(await services.service_users.change_email(call.caller, UserId(call.path.user_id), email, call.actor))


@endpoint.delete(_USER, caller=key(Permission.DELETE_USERS), status=204, tags=_TAGS)
async def delete_service_user(call: Call[None, None, ServiceUserPath, KeyHolder], services: Services) -> NoBody:
    """Delete a user

    With all that the service has of them: subscriptions, sessions, sign-ins. The account goes too if it came to be through this service and
    nothing else holds it; otherwise it stays its owner's, and is not this service's any more. This cannot be undone. An owner of an
    organization or of the platform cannot be deleted.
    """
    await services.service_users.delete(call.caller, UserId(call.path.user_id), call.actor)
    return NO_BODY


def _record(user: ServiceUser) -> ServiceUserRecord:
    return ServiceUserRecord(id=user.id, email=user.email.address, created_at=user.created_at)
