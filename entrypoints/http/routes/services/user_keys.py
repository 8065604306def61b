"""The keys that the users of a service have for its API: for the service's own servers, and for members of the organization."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import UserId, UserKeyId
from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT
from core.domain.secrets import Token
from core.domain.services.api_keys import LONGEST_LIFE, KeyHolder, Permission
from core.domain.services.resource_identifiers import LONGEST_IDENTIFIER
from core.domain.services.resource_servers import LONGEST_SCOPE, MOST_SCOPES
from core.domain.services.user_keys import (
    LONGEST_PREFIX,
    MOST_KEYS,
    SHORTEST_PREFIX,
    KeyReason,
    KnownUserKey,
    OwnedUserKey,
    UserKey,
    UserKeySettings,
    UserKeySettingsChange,
    WantedUserKey,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able, admit_key, key, key_with_body
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    SHOWN_ONCE,
    CreatedAt,
    EmailAddress,
    Id,
    Lines,
    Name,
    ServicePath,
    UserUuid,
    bounded,
    example,
)
from entrypoints.http.machinery.limits import UNLIMITED

_TAGS = ("service-interface",)
_KEYS: Final = "/api/service/user-keys"
_KEY: Final = f"{_KEYS}/{{user_key_id}}"

_Scope = Annotated[str, msgspec.Meta(max_length=LONGEST_SCOPE)]
_Scopes = Annotated[Sequence[_Scope], msgspec.Meta(max_length=MOST_SCOPES), example(["orders:read"])]
_KeyName = Annotated[Name, example("Laptop")]


class ServiceUserKeyPath(msgspec.Struct, frozen=True):
    user_key_id: UUID
    """The user API key's ID."""


class UserKeysQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of the list."""

    after: UUID | None = None
    """The `next` value of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The maximum number of entries to return. Values above the maximum are rejected."""

    @property
    def position(self) -> UserKeyId | None:
        return None if self.after is None else UserKeyId(self.after)


class ServiceUserKeysQuery(UserKeysQuery, frozen=True, kw_only=True):
    """The requested part of the list, and a filter."""

    user_id: UserUuid | None = None
    """Only the keys of this user."""


class NewServiceUserKey(msgspec.Struct, frozen=True, kw_only=True):
    """The user API key to create."""

    user_id: UserUuid
    name: _KeyName
    """The key's name, for the user."""
    scopes: _Scopes = ()
    """The scopes of the key, from the API in the service's settings. The user must have the permissions that the scopes require."""
    expires_in_days: Annotated[int, example(90)] | None = None
    """The number of days until the key expires. If omitted, the key gets the maximum lifetime of the service's settings."""


class ServiceUserKeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A user API key, without the key itself."""

    id: Id
    user_id: UserUuid
    name: _KeyName
    """The key's name."""
    prefix: Annotated[str, example("acme_a1b2c3")]
    """The prefix of the key, for identification."""
    scopes: _Scopes
    """The scopes of the key."""
    last_used_at: datetime | None
    """When the key was last found valid, with a precision of 1 minute; null if never."""
    expires_at: datetime | None
    """When the key expires; null if it never does."""
    created_at: CreatedAt
    made_by_user: Annotated[bool, example(True)]
    """Whether the user created the key. If false, the service created it."""


class CreatedServiceUserKey(msgspec.Struct, frozen=True, kw_only=True):
    """The new user API key. Only this response contains the key itself."""

    id: Id
    user_id: UserUuid
    name: _KeyName
    """The key's name."""
    prefix: Annotated[str, example("acme_a1b2c3")]
    """The prefix of the key, for identification."""
    key: Annotated[str, SHOWN_ONCE, example("acme_a1b2c3_Zk8vQ1nR5tYw3XcB7mLp0HsDfG6jK9qWe2RtUyIoPa4")]
    """The key. It is shown only once."""
    scopes: _Scopes
    """The scopes of the key."""
    expires_at: datetime | None
    """When the key expires; null if it never does."""
    created_at: CreatedAt


class ServiceUserKeyList(msgspec.Struct, frozen=True):
    """One page of user API keys."""

    user_keys: Sequence[ServiceUserKeyRecord]
    """The keys on this page, newest first."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


class UserKeyCheck(msgspec.Struct, frozen=True):
    """A user API key to verify."""

    key: Annotated[Lines, example("acme_a1b2c3_Zk8vQ1nR5tYw3XcB7mLp0HsDfG6jK9qWe2RtUyIoPa4")]
    """The key that your API received. Any text is accepted."""
    scopes: _Scopes = ()
    """The scopes that the request to your API requires. If the key lacks one of them, it is not valid."""


class UserKeyVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the key is valid, and its user. If the key is not valid, the response has only the reason."""

    valid: bool
    """Whether the key is valid."""
    reason: Annotated[KeyReason, example(None)] | None = None
    """Why the key is not valid. `unknown`: your service has no such key, or the key was revoked. `expired`: the key has expired. `off`: the
    service has turned user API keys off. `barred`: the service does not currently admit the user. `lacks_scope`: the key lacks a requested
    scope, or the user has lost the permission.
    """
    user_id: UserUuid | None = None
    key_id: Annotated[UUID, example("0199d3a0-0000-7000-8000-000000000001")] | None = None
    """The key's ID."""
    name: _KeyName | None = None
    """The key's name."""
    scopes: _Scopes = ()
    """The current scopes of the key."""
    expires_at: datetime | None = None
    """When the key expires; absent if it never does."""


@endpoint.get(_KEYS, caller=key(Permission.READ_USER_KEYS), tags=_TAGS)
async def list_service_user_keys(call: Call[None, ServiceUserKeysQuery, None, KeyHolder], postern: Postern) -> ServiceUserKeyList:
    """List user API keys of the service

    Returns keys newest first, without the keys themselves. Expired keys stay listed for 30 days.
    """
    asked = call.query
    user = None if asked.user_id is None else UserId(asked.user_id)
    page = await postern.services.user_keys.list(call.caller, user, asked.position, asked.limit)
    return ServiceUserKeyList([_record(one.key) for one in page.keys], page.next)


@endpoint.post(_KEYS, caller=key(Permission.WRITE_USER_KEYS), limit=UNLIMITED, status=201, refuses=(BadRequest,), tags=_TAGS)
async def create_service_user_key(call: Call[NewServiceUserKey, None, None, KeyHolder], postern: Postern) -> CreatedServiceUserKey:
    """Create a user API key

    The key is for your own API; Postern's endpoints do not accept it. It is shown only once: Postern stores only its digest. The user must
    have signed in to the service before, and the service must currently admit the user.
    """
    made = await postern.services.user_keys.create(call.caller, UserId(call.body.user_id), _wanted(call.body), call.actor)
    return _created(made.key, key=made.text.reveal())


@endpoint.post(f"{_KEYS}/verify", caller=key_with_body(Permission.VERIFY_USER_KEYS), limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def verify_service_user_key(call: Call[UserKeyCheck, None, None, Token], postern: Postern) -> UserKeyVerdict:
    """Verify a user API key

    For your API, at each request with a key. The response is never older than the request. If the key is revoked, or the user loses access
    to the service or a permission, the response reflects it immediately.
    """
    body, request = call.body, call.request
    verdict = await postern.services.user_keys.verify(
        call.caller, body.key, body.scopes, lambda holder: admit_key(holder, Permission.VERIFY_USER_KEYS, request)
    )
    return UserKeyVerdict(valid=False, reason=verdict.reason) if verdict.key is None else _valid(verdict.key, valid=True)


@endpoint.get(_KEY, caller=key(Permission.READ_USER_KEYS), tags=_TAGS)
async def get_service_user_key(call: Call[None, None, ServiceUserKeyPath, KeyHolder], postern: Postern) -> ServiceUserKeyRecord:
    """Get a user API key of the service

    The key itself is never returned.
    """
    return _record(await postern.services.user_keys.get(call.caller, UserKeyId(call.path.user_key_id)))


@endpoint.delete(_KEY, caller=key(Permission.WRITE_USER_KEYS), limit=UNLIMITED, status=204, tags=_TAGS)
async def delete_service_user_key(call: Call[None, None, ServiceUserKeyPath, KeyHolder], postern: Postern) -> NoBody:
    """Revoke a user API key of the service

    From the next check, the key is not valid. This cannot be undone.
    """
    await postern.services.user_keys.revoke(call.caller, UserKeyId(call.path.user_key_id), call.actor)
    return NO_BODY


_wanted = taken(NewServiceUserKey, WantedUserKey, apart=("user_id",))
_record = shown(UserKey, ServiceUserKeyRecord, named={"user_id": "user"}, made_by_user=lambda one: one.made_by_key is None)
_created = shown(UserKey, CreatedServiceUserKey, given=("key",), named={"user_id": "user"})
_valid = shown(KnownUserKey, UserKeyVerdict, given=("valid", "reason"), named={"user_id": "user", "key_id": "id"})


_USER_KEY_TAGS = ("user-keys",)
_USER_KEY_KEYS: Final = "/api/organizations/{org_slug}/services/{service_slug}/user-keys"
_USER_KEY_KEY: Final = f"{_USER_KEY_KEYS}/{{user_key_id}}"
_SETTINGS: Final = "/api/organizations/{org_slug}/services/{service_slug}/user-key-settings"

_Prefix = Annotated[str, bounded({"minLength": SHORTEST_PREFIX, "maxLength": LONGEST_PREFIX, "pattern": "^[a-z][a-z0-9_]*[a-z0-9]$"})]
_Most = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": MOST_KEYS})]
_Days = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": LONGEST_LIFE})]
_Resource = Annotated[str, bounded({"maxLength": LONGEST_IDENTIFIER})]


class UserKeyPath(ServicePath, frozen=True):
    user_key_id: UUID
    """The user API key's ID."""


class UserKeySettingsBody(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of user API keys for a service's API."""

    enabled: Annotated[bool, example(True)] = False
    """Whether users of the service can have keys. While false, no key is valid."""
    prefix: Annotated[_Prefix, example("acme")] | None = None
    """The prefix of each key, 2 to 12 of a-z, 0-9 and _, so that people and secret scanners can recognize it."""
    most_keys: Annotated[_Most, example(10)] = 10
    """The maximum number of keys per user, 1 to 100. Expired keys do not count."""
    longest_days: Annotated[_Days, example(365)] | None = None
    """The maximum lifetime of a key in days, 1 to 3650; null if keys can have no expiry. It applies to new keys."""
    resource: Annotated[_Resource, example("https://api.acme.example/orders")] | None = None
    """The identifier of the API whose scopes keys can have; null if keys have no scopes. The service must represent the API."""


class UserKeySettingsPatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to the settings. Omitted fields keep their values; send at least one."""

    enabled: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether users of the service can have keys. While false, no key is valid. If you turn this on again, the keys are valid again."""
    prefix: Annotated[_Prefix, example("acme")] | msgspec.UnsetType | None = msgspec.UNSET
    """The prefix of each new key: 2 to 12 of a-z, 0-9 and _, starting with a letter."""
    most_keys: Annotated[_Most, example(10)] | msgspec.UnsetType = msgspec.UNSET
    """The maximum number of keys per user, 1 to 100."""
    longest_days: Annotated[_Days, example(365)] | msgspec.UnsetType | None = msgspec.UNSET
    """The maximum lifetime of a new key in days; null if keys can have no expiry."""
    resource: Annotated[_Resource, example("https://api.acme.example/orders")] | msgspec.UnsetType | None = msgspec.UNSET
    """The identifier of the API whose scopes new keys can have; null for none. Existing keys keep their API."""


class UserKeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A user API key, without the key itself."""

    id: Id
    user_id: UserUuid
    email: EmailAddress
    name: Annotated[str, example("Laptop")]
    """The key's name."""
    prefix: Annotated[str, example("acme_a1b2c3")]
    """The prefix of the key, for identification."""
    scopes: Annotated[Sequence[str], example(["orders:read"])]
    """The scopes of the key."""
    last_used_at: datetime | None
    """When the key was last found valid, with a precision of 1 minute; null if never."""
    expires_at: datetime | None
    """When the key expires; null if it never does."""
    created_at: CreatedAt
    made_by_user: Annotated[bool, example(True)]
    """Whether the user created the key. If false, the service created it."""


class UserKeyList(msgspec.Struct, frozen=True):
    """One page of user API keys."""

    user_keys: Sequence[UserKeyRecord]
    """The keys on this page, newest first."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


@endpoint.get(_USER_KEY_KEYS, caller=able(Capability.END_USERS_VIEW, impersonated=True), keys=True, tags=_USER_KEY_TAGS)
async def list_user_keys(call: Call[None, UserKeysQuery, ServicePath, Member], postern: Postern) -> UserKeyList:
    """List user API keys

    Returns the keys of a service's users, newest first, without the keys themselves. Expired keys stay listed for 30 days.
    """
    asked = call.query
    page = await postern.services.user_keys.list_of_service(call.caller, call.path.service_slug, asked.position, asked.limit)
    return UserKeyList([_record_user_key(one) for one in page.keys], page.next)


@endpoint.get(_USER_KEY_KEY, caller=able(Capability.END_USERS_VIEW, impersonated=True), keys=True, tags=_USER_KEY_TAGS)
async def get_user_key(call: Call[None, None, UserKeyPath, Member], postern: Postern) -> UserKeyRecord:
    """Get a user API key

    The key itself is never returned.
    """
    path = call.path
    return _record_user_key(await postern.services.user_keys.get_of_service(call.caller, path.service_slug, UserKeyId(path.user_key_id)))


@endpoint.delete(_USER_KEY_KEY, caller=able(Capability.END_USERS_MANAGE, impersonated=True), keys=True, status=204, tags=_USER_KEY_TAGS)
async def delete_user_key(call: Call[None, None, UserKeyPath, Member], postern: Postern) -> NoBody:
    """Revoke a user API key

    From the next check, the key is not valid. This cannot be undone.
    """
    path = call.path
    await postern.services.user_keys.revoke_of_service(call.caller, path.service_slug, UserKeyId(path.user_key_id), call.actor)
    return NO_BODY


@endpoint.get(_SETTINGS, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_USER_KEY_TAGS)
async def get_user_key_settings(call: Call[None, None, ServicePath, Member], postern: Postern) -> UserKeySettingsBody:
    """Get the user API key settings of a service

    If a service never set them, user API keys are off.
    """
    return _settings(await postern.services.user_keys.settings(call.caller, call.path.service_slug))


@endpoint.patch(
    _SETTINGS,
    caller=able(Capability.SERVICES_MANAGE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    refuses=(BadRequest,),
    tags=_USER_KEY_TAGS,
)
async def change_user_key_settings(call: Call[UserKeySettingsPatch, None, ServicePath, Member], postern: Postern) -> UserKeySettingsBody:
    """Change the user API key settings of a service

    New limits apply to new keys. If you turn user API keys off, no key is valid from the next check.
    """
    changed = await postern.services.user_keys.change_settings(call.caller, call.path.service_slug, _change(call.body), call.actor)
    return _settings(changed)


_record_user_key = shown(
    OwnedUserKey, UserKeyRecord, within=("key",), named={"user_id": "key.user"}, made_by_user=lambda one: one.key.made_by_key is None
)
_settings = shown(UserKeySettings, UserKeySettingsBody)
_change = taken(UserKeySettingsPatch, UserKeySettingsChange)
