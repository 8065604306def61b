"""The API keys of a service, by which its own servers use the service interface."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from core.domain.api_keys import ApiKey, Permission
from core.domain.errors import BadRequest
from core.domain.identifiers import ApiKeyId
from core.domain.members import Member
from core.domain.roles import Capability
from entrypoints.bootstrap import Services
from entrypoints.http.answers import NO_BODY, NoBody
from entrypoints.http.callers import able
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.paging import OffsetPaging
from entrypoints.http.routes.services import ServicePath

_TAGS = ("api-keys",)
_KEYS = "/api/organizations/{org_slug}/services/{service_slug}/api-keys"
_KEY = "/api/organizations/{org_slug}/services/{service_slug}/api-keys/{api_key_id}"


class ApiKeyPath(msgspec.Struct, frozen=True):
    org_slug: str
    service_slug: str
    api_key_id: UUID


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """Without `expires_in_days` the key does not expire."""

    name: str
    permissions: tuple[Permission, ...]
    expires_in_days: int | None = None


class ApiKeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`prefix` is how the key begins: enough to tell it from the others. `last_used_at` is written down once a minute at most; null: it was
    never used. `expires_at` null: it does not expire.
    """

    id: UUID
    service_id: UUID
    name: str
    prefix: str
    permissions: Sequence[Permission]
    last_used_at: datetime | None
    expires_at: datetime | None
    created_at: datetime
    created_by: UUID


class CreatedApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """`key` is shown here and never again."""

    id: UUID
    service_id: UUID
    name: str
    prefix: str
    key: str
    permissions: Sequence[Permission]
    expires_at: datetime | None
    created_at: datetime
    created_by: UUID


class ApiKeyList(msgspec.Struct, frozen=True):
    """One page of them, and how many there are in all."""

    api_keys: Sequence[ApiKeyRecord]
    total: int


@endpoint.post(_KEYS, caller=able(Capability.SERVICES_MANAGE), status=201, refuses=(BadRequest,), tags=_TAGS)
async def create_api_key(call: Call[NewKey, None, ServicePath, Member], services: Services) -> CreatedApiKey:
    """Make an API key

    For the service's own servers, which send it as `X-Api-Key`. It is shown once, and kept as a digest. It may do what its permissions say,
    with this service alone; nobody gives it what they may not do themselves. `expires_in_days` is 1 to 3650.
    """
    body = call.body
    created = await services.api_keys.create(
        call.caller,
        call.path.service_slug,
        call.actor,
        name=body.name,
        permissions=body.permissions,
        expires_in_days=body.expires_in_days,
    )
    key = created.key
    return CreatedApiKey(
        id=key.id,
        service_id=key.service,
        name=key.name,
        prefix=key.prefix,
        key=created.text.reveal(),
        permissions=key.permissions,
        expires_at=key.expires_at,
        created_at=key.created_at,
        created_by=key.created_by,
    )


@endpoint.get(_KEYS, caller=able(Capability.SERVICES_VIEW), tags=_TAGS)
async def list_api_keys(call: Call[None, OffsetPaging, ServicePath, Member], services: Services) -> ApiKeyList:
    """The API keys of a service, the youngest first

    Without the keys themselves, which nobody can look up. Those that have expired stay listed until they are deleted.
    """
    asked = call.query
    found = await services.api_keys.list(call.caller, call.path.service_slug, asked.limit, asked.offset)
    return ApiKeyList([_record(key) for key in found.items], found.total)


@endpoint.get(_KEY, caller=able(Capability.SERVICES_VIEW), tags=_TAGS)
async def api_key(call: Call[None, None, ApiKeyPath, Member], services: Services) -> ApiKeyRecord:
    """An API key

    Without the key itself.
    """
    path = call.path
    return _record(await services.api_keys.get(call.caller, path.service_slug, ApiKeyId(path.api_key_id)))


@endpoint.delete(_KEY, caller=able(Capability.SERVICES_MANAGE), status=204, tags=_TAGS)
async def delete_api_key(call: Call[None, None, ApiKeyPath, Member], services: Services) -> NoBody:
    """Delete an API key

    It is refused from the next request on. Nothing brings it back.
    """
    path = call.path
    await services.api_keys.delete(call.caller, path.service_slug, ApiKeyId(path.api_key_id), call.actor)
    return NO_BODY


def _record(key: ApiKey) -> ApiKeyRecord:
    return ApiKeyRecord(
        id=key.id,
        service_id=key.service,
        name=key.name,
        prefix=key.prefix,
        permissions=key.permissions,
        last_used_at=key.last_used_at,
        expires_at=key.expires_at,
        created_at=key.created_at,
        created_by=key.created_by,
    )
