"""The API keys of a service. The service's own servers use the service interface with an API key."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import ApiKeyId
from core.domain.services.api_keys import ApiKey, Permission
from core.domain.services.user_keys import MadeUserKey
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    SHOWN_ONCE,
    CreatedAt,
    Id,
    Name,
    OffsetPaging,
    ServicePath,
    ServiceUuid,
    Total,
    UserUuid,
    example,
)
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("api-keys",)
_KEYS = "/api/organizations/{org_slug}/services/{service_slug}/api-keys"
_KEY = "/api/organizations/{org_slug}/services/{service_slug}/api-keys/{api_key_id}"


class ApiKeyPath(ServicePath, frozen=True):
    api_key_id: UUID
    """The API key's ID."""


class NewApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """The API key to create."""

    name: Annotated[Name, example("Billing server")]
    """The key's name."""
    permissions: Annotated[tuple[Permission, ...], example(["read:users", "write:users"])]
    """The permissions of the key, for this service only. You cannot grant permissions that you do not have."""
    expires_in_days: Annotated[int, example(365)] | None = None
    """The number of days until the key expires, 1 to 3650. If omitted, the key never expires."""


class ApiKeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An API key, without the key itself."""

    id: Id
    service_id: ServiceUuid
    name: Annotated[str, example("Billing server")]
    """The key's name."""
    prefix: Annotated[str, example("sk_a1b2c3")]
    """The prefix of the key, for identification."""
    permissions: Annotated[Sequence[Permission], example(["read:users", "write:users"])]
    """The permissions of the key."""
    last_used_at: datetime | None
    """When the key was last used, with a precision of 1 minute; null if never."""
    expires_at: datetime | None
    """When the key expires; null if it never does."""
    created_at: CreatedAt
    created_by: UUID
    """The user who created the key."""


class MadeUserKeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A user API key that an API key created."""

    id: Id
    user_id: UserUuid
    name: Annotated[str, example("Laptop")]
    """The key's name."""
    prefix: Annotated[str, example("acme_a1b2c3")]
    """The prefix of the key."""


class ApiKeyDetail(ApiKeyRecord, frozen=True, kw_only=True):
    """An API key, without the key itself, and the user API keys that it created."""

    user_keys: Sequence[MadeUserKeyRecord] | None
    """The latest 1000 user API keys that the key created, which stay valid without it; null if you cannot view end users."""


class DeletedApiKeyQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What else ends."""

    end_made: Annotated[bool, example(True)] = False
    """Whether to revoke the user API keys that the key created, too. You also need the right to manage end users."""


class CreatedApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """The new API key. Only this response contains the key itself."""

    id: Id
    service_id: ServiceUuid
    name: Annotated[str, example("Billing server")]
    """The key's name."""
    prefix: Annotated[str, example("sk_a1b2c3")]
    """The prefix of the key, for identification."""
    key: Annotated[str, SHOWN_ONCE, example("sk_a1b2c3_Zk8vQ1nR5tYw3XcB7mLp0HsD")]
    """The key, to send as `X-Api-Key`. It is shown only once."""
    permissions: Annotated[Sequence[Permission], example(["read:users", "write:users"])]
    """The permissions of the key."""
    expires_at: datetime | None
    """When the key expires; null if it never does."""
    created_at: CreatedAt
    created_by: UUID
    """The user who created the key."""


class ApiKeyList(msgspec.Struct, frozen=True):
    """One page of API keys."""

    api_keys: Sequence[ApiKeyRecord]
    """The keys on this page, newest first."""
    total: Total


@endpoint.post(
    _KEYS,
    caller=able(Capability.SERVICES_MANAGE, impersonated=False),
    keys=True,
    limit=CREDENTIALS,
    status=201,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def create_api_key(call: Call[NewApiKey, None, ServicePath, Member], postern: Postern) -> CreatedApiKey:
    """Create an API key

    For the service's own servers, which send the key as `X-Api-Key`. The key is shown only once: Postern stores only its digest. Its
    permissions apply to this service only. You cannot grant permissions that you do not have.
    """
    body = call.body
    created = await postern.services.api_keys.create(
        call.caller,
        call.path.service_slug,
        call.actor,
        name=body.name,
        permissions=body.permissions,
        expires_in_days=body.expires_in_days,
    )
    return _created(created.key, key=created.text.reveal())


@endpoint.get(_KEYS, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_api_keys(call: Call[None, OffsetPaging, ServicePath, Member], postern: Postern) -> ApiKeyList:
    """List API keys

    Returns the API keys of a service, newest first, without the keys themselves. Expired keys stay listed until you delete them.
    """
    asked = call.query
    found = await postern.services.api_keys.list(call.caller, call.path.service_slug, asked.limit, asked.offset)
    return ApiKeyList([_record(key) for key in found.items], found.total)


@endpoint.get(_KEY, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def get_api_key(call: Call[None, None, ApiKeyPath, Member], postern: Postern) -> ApiKeyDetail:
    """Get an API key

    The response includes the user API keys that it created, but not the key itself.
    """
    path = call.path
    found = await postern.services.api_keys.get(call.caller, path.service_slug, ApiKeyId(path.api_key_id))
    made = await postern.services.api_keys.made(call.caller, found)
    return _detail(found, user_keys=None if made is None else [_made(one) for one in made])


@endpoint.delete(_KEY, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, status=204, tags=_TAGS)
async def delete_api_key(call: Call[None, DeletedApiKeyQuery, ApiKeyPath, Member], postern: Postern) -> NoBody:
    """Delete an API key

    From the next request, the key is rejected. This cannot be undone. The user API keys that it created stay valid, unless you revoke them
    with `end_made`.
    """
    path = call.path
    await postern.services.api_keys.delete(
        call.caller, path.service_slug, ApiKeyId(path.api_key_id), call.actor, end_made=call.query.end_made
    )
    return NO_BODY


_created = shown(ApiKey, CreatedApiKey, given=("key",), named={"service_id": "service"})
_detail = shown(ApiKey, ApiKeyDetail, given=("user_keys",), named={"service_id": "service"})
_made = shown(MadeUserKey, MadeUserKeyRecord, named={"user_id": "user"})
_record = shown(ApiKey, ApiKeyRecord, named={"service_id": "service"})
