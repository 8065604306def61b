"""The keys that the users of a service have for its API, for members of the organization, and the settings under which people make them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import UserKeyId
from core.domain.services.api_keys import LONGEST_LIFE
from core.domain.services.resource_identifiers import LONGEST_IDENTIFIER
from core.domain.services.user_keys import (
    LONGEST_PREFIX,
    MOST_KEYS,
    SHORTEST_PREFIX,
    OwnedUserKey,
    UserKeySettings,
    UserKeySettingsChange,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, EmailAddress, Id, ServicePath, UserUuid, example
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.services.service_user_keys import UserKeysQuery

_TAGS = ("user-keys",)
_KEYS: Final = "/api/organizations/{org_slug}/services/{service_slug}/user-keys"
_KEY: Final = f"{_KEYS}/{{user_key_id}}"
_SETTINGS: Final = "/api/organizations/{org_slug}/services/{service_slug}/user-key-settings"

_Prefix = Annotated[
    str, msgspec.Meta(extra_json_schema={"minLength": SHORTEST_PREFIX, "maxLength": LONGEST_PREFIX, "pattern": "^[a-z][a-z0-9_]*[a-z0-9]$"})
]
_Most = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": MOST_KEYS})]
_Days = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": LONGEST_LIFE})]
_Resource = Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": LONGEST_IDENTIFIER})]


class UserKeyPath(ServicePath, frozen=True):
    user_key_id: UUID
    """The user key's id."""


class UserKeySettingsBody(msgspec.Struct, frozen=True, kw_only=True):
    """How the users of a service make keys for its API."""

    enabled: Annotated[bool, example(True)] = False
    """Whether users of the service may have keys. While this is false, no key is valid."""
    prefix: Annotated[_Prefix, example("acme")] | None = None
    """The beginning of each key, so that people and scanners of secrets recognise it: 2 to 12 of a-z, 0-9 and _."""
    most_keys: Annotated[_Most, example(10)] = 10
    """The most keys of one user, 1 to 100. Expired keys do not count."""
    longest_days: Annotated[_Days, example(365)] | None = None
    """The longest life of a key in days, 1 to 3650; null if a key may have no end. It counts for new keys."""
    resource: Annotated[_Resource, example("https://api.acme.example/orders")] | None = None
    """The identifier of the API whose scopes users give to their keys; null if keys have no scopes. The service must stand for the API."""


class UserKeySettingsPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the settings. Fields that you leave out stay as they are; send at least one."""

    enabled: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether users of the service may have keys. While this is false, no key is valid; the keys come back if you turn this on again."""
    prefix: Annotated[_Prefix, example("acme")] | msgspec.UnsetType | None = msgspec.UNSET
    """The beginning of each new key: 2 to 12 of a-z, 0-9 and _, a letter first."""
    most_keys: Annotated[_Most, example(10)] | msgspec.UnsetType = msgspec.UNSET
    """The most keys of one user, 1 to 100."""
    longest_days: Annotated[_Days, example(365)] | msgspec.UnsetType | None = msgspec.UNSET
    """The longest life of a new key in days; null if a key may have no end."""
    resource: Annotated[_Resource, example("https://api.acme.example/orders")] | msgspec.UnsetType | None = msgspec.UNSET
    """The identifier of the API whose scopes users give to new keys; null for none. Keys keep the API that they were made for."""


class UserKeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a user, without the key itself."""

    id: Id
    user_id: UserUuid
    email: EmailAddress
    name: Annotated[str, example("Laptop")]
    """The key's name."""
    prefix: Annotated[str, example("acme_a1b2c3")]
    """The beginning of the key: enough to tell it from the others."""
    scopes: Annotated[Sequence[str], example(["orders:read"])]
    """The scopes that the key was given."""
    last_used_at: datetime | None
    """When the key was last found valid, to the minute; null if it never was."""
    expires_at: datetime | None
    """When the key expires; null if it never does."""
    created_at: CreatedAt
    made_by_user: Annotated[bool, example(True)]
    """Whether the user made the key; otherwise the service did."""


class UserKeyList(msgspec.Struct, frozen=True):
    """One page of user keys."""

    user_keys: Sequence[UserKeyRecord]
    """The keys on this page, the newest first."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


@endpoint.get(_KEYS, caller=able(Capability.END_USERS_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_user_keys(call: Call[None, UserKeysQuery, ServicePath, Member], postern: Postern) -> UserKeyList:
    """List the keys of a service's users, the newest first

    The keys themselves are not shown: nobody can look them up. Expired keys stay listed for 30 days.
    """
    asked = call.query
    page = await postern.services.user_keys.list_of_service(call.caller, call.path.service_slug, asked.position, asked.limit)
    return UserKeyList([_record(one) for one in page.keys], page.next)


@endpoint.get(_KEY, caller=able(Capability.END_USERS_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def get_user_key(call: Call[None, None, UserKeyPath, Member], postern: Postern) -> UserKeyRecord:
    """Get a key of a user

    The key itself is not shown.
    """
    path = call.path
    return _record(await postern.services.user_keys.get_of_service(call.caller, path.service_slug, UserKeyId(path.user_key_id)))


@endpoint.delete(_KEY, caller=able(Capability.END_USERS_MANAGE, impersonated=True), keys=True, status=204, tags=_TAGS)
async def delete_user_key(call: Call[None, None, UserKeyPath, Member], postern: Postern) -> NoBody:
    """End a key of a user

    The key is not valid from the next check on. This cannot be undone.
    """
    path = call.path
    await postern.services.user_keys.revoke_of_service(call.caller, path.service_slug, UserKeyId(path.user_key_id), call.actor)
    return NO_BODY


@endpoint.get(_SETTINGS, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def get_user_key_settings(call: Call[None, None, ServicePath, Member], postern: Postern) -> UserKeySettingsBody:
    """Get the settings of the keys that a service's users make

    A service that never set them has none of these keys.
    """
    return _settings(await postern.services.user_keys.settings(call.caller, call.path.service_slug))


@endpoint.patch(
    _SETTINGS, caller=able(Capability.SERVICES_MANAGE, impersonated=False), keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS
)
async def change_user_key_settings(call: Call[UserKeySettingsPatch, None, ServicePath, Member], postern: Postern) -> UserKeySettingsBody:
    """Change the settings of the keys that a service's users make

    Bounds count for new keys. If you turn the keys off, none is valid from the next check on.
    """
    changed = await postern.services.user_keys.change_settings(call.caller, call.path.service_slug, _change(call.body), call.actor)
    return _settings(changed)


_record = shown(
    OwnedUserKey, UserKeyRecord, within=("key",), named={"user_id": "key.user"}, made_by_user=lambda one: one.key.made_by_key is None
)
_settings = shown(UserKeySettings, UserKeySettingsBody)
_change = taken(UserKeySettingsPatch, UserKeySettingsChange)
