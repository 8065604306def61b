"""Credentials of an application: API keys and client secrets."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest, Forbidden
from core.domain.formats import Json, timestamp
from core.domain.identifiers import ApiKeyId, ClientSecretId, ManagementKeyId, OrganizationId, ServiceId, UserId
from core.domain.record.events import ActingKey, Actor, Event, Target
from core.domain.services.services import Service, ServiceProfile
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace

API_KEY_KIND: Final = "sk"
LONGEST_LIFE: Final = 3650
"""In days. A key for a longer time should rather be one without an end."""
MOST_KEYS: Final = 1000
"""The limit for one service. Expired keys count too, because they stay until somebody deletes them."""


class Permission(StrEnum):
    """The permissions that an API key can have for its service."""

    READ_USERS = "read:users"
    WRITE_USERS = "write:users"
    DELETE_USERS = "delete:users"
    READ_SUBSCRIPTIONS = "read:subscriptions"
    WRITE_SUBSCRIPTIONS = "write:subscriptions"
    DELETE_SUBSCRIPTIONS = "delete:subscriptions"
    READ_ANALYTICS = "read:analytics"
    READ_SERVICE = "read:service"
    WRITE_SERVICE = "write:service"
    READ_USER_KEYS = "read:user_keys"
    WRITE_USER_KEYS = "write:user_keys"
    VERIFY_USER_KEYS = "verify:user_keys"

    @property
    def capability(self) -> Capability:
        """The capability that people need before they may give this permission to a key."""
        return _CAPABILITIES[self]


_CAPABILITIES: Final = {
    Permission.READ_USERS: Capability.END_USERS_VIEW,
    Permission.WRITE_USERS: Capability.END_USERS_MANAGE,
    Permission.DELETE_USERS: Capability.END_USERS_MANAGE,
    Permission.READ_SUBSCRIPTIONS: Capability.SERVICES_VIEW,
    Permission.WRITE_SUBSCRIPTIONS: Capability.BILLING_MANAGE,
    Permission.DELETE_SUBSCRIPTIONS: Capability.BILLING_MANAGE,
    Permission.READ_ANALYTICS: Capability.SERVICES_VIEW,
    Permission.READ_SERVICE: Capability.SERVICES_VIEW,
    Permission.WRITE_SERVICE: Capability.SERVICES_MANAGE,
    Permission.READ_USER_KEYS: Capability.END_USERS_VIEW,
    Permission.WRITE_USER_KEYS: Capability.END_USERS_MANAGE,
    Permission.VERIFY_USER_KEYS: Capability.END_USERS_VIEW,
}
_BY_WORD: Final = {permission.value: permission for permission in Permission}


class ApiKey(Frozen, kw_only=True):
    """The stored data of an API key, with which an application's own servers call Postern. Each key has its own permissions. The key itself
    is only in the response that creates it. `prefix` is its beginning.
    """

    id: ApiKeyId
    service: ServiceId
    name: str
    prefix: str
    permissions: tuple[Permission, ...]
    last_used_at: datetime | None = None
    expires_at: datetime | None
    created_by: UserId
    created_at: datetime
    made_by_key: ManagementKeyId | None = None


class PlacedKey(Frozen):
    """A key, with its service and organization."""

    key: ApiKey
    service_slug: str
    organization: OrganizationId
    organization_slug: str


class KeyHolder(Frozen):
    """The caller behind a valid key of an existing service in an active organization."""

    key: ApiKeyId
    service: ServiceId
    service_slug: str
    organization: OrganizationId
    organization_slug: str
    permissions: frozenset[Permission]
    name: str
    prefix: str
    profile: ServiceProfile

    @property
    def acting(self) -> ActingKey:
        return ActingKey(self.key, self.name, self.prefix)

    def require(self, permission: Permission) -> None:
        if permission not in self.permissions:
            raise Forbidden(f"This API key does not have the permission {permission}", words="forbidden")


def key_permissions(wanted: Collection[Permission]) -> tuple[Permission, ...]:
    """Each permission once, in the order of the request. Raises `BadRequest` for an empty list."""
    if not wanted:
        raise BadRequest("permissions: at least one is required", words="tick_one")
    return tuple(dict.fromkeys(wanted))


def known_permissions(words: Iterable[str]) -> tuple[Permission, ...]:
    """The stored permissions. Words that this release does not know permit nothing."""
    return tuple(_BY_WORD[word] for word in words if word in _BY_WORD)


def key_expiry(days: int | None, now: datetime) -> datetime | None:
    """The end of a key's life. None when the key does not expire. Raises `BadRequest`."""
    if days is None:
        return None
    if not 1 <= days <= LONGEST_LIFE:
        raise BadRequest(
            f"expires_in_days: 1 to {LONGEST_LIFE}, or omit it for a key that does not expire",
            words="key_life",
            values={"most": LONGEST_LIFE},
        )
    return now + timedelta(days=days)


def require_grantable(permissions: Iterable[Permission], held: Collection[Capability]) -> None:
    """Nobody can give a key permissions for actions that they may not take themselves. Raises `Forbidden`."""
    missing = [permission for permission in permissions if permission.capability not in held]
    if missing:
        needed = ", ".join(f"{permission} (needs {permission.capability})" for permission in missing)
        raise Forbidden(f"permissions: you cannot grant a key permissions that you do not have: {needed}", words="rights_missing")


def require_room_for_api_key(count: int) -> None:
    if count >= MOST_KEYS:
        raise BadRequest(f"A service has at most {MOST_KEYS} API keys: delete one first", words="limit_reached", values={"most": MOST_KEYS})


def api_key_created(placed: PlacedKey, actor: Actor) -> Event:
    return _event("api_key.created", placed, actor)


def api_key_deleted(placed: PlacedKey, actor: Actor, operator: str = "") -> Event:
    """`operator` is the name of the person at the command line. It is kept apart, so that it can be forgotten."""
    return replace(_event("api_key.deleted", placed, actor), personal={"operator": operator} if operator else {})


def _event(name: str, placed: PlacedKey, actor: Actor) -> Event:
    key = placed.key
    details: dict[str, Json] = {
        "api_key_id": str(key.id),
        "service_id": str(key.service),
        "service_slug": placed.service_slug,
        "name": key.name,
        "prefix": key.prefix,
        "permissions": [permission.value for permission in key.permissions],
        "expires_at": None if key.expires_at is None else timestamp(key.expires_at),
    }
    return Event(name, actor, Target("api_key", str(key.id)), placed.organization, details)


MOST_CLIENT_SECRETS: Final = 2
CLIENT_SECRETS_KIND: Final = "cs"


class ClientSecret(Frozen):
    """The stored data of a client secret, with which a confidential client authenticates at the token endpoint. Two secrets may be valid at
    once, so that one can replace the other without downtime. The secret itself is only in the response that creates it.
    """

    id: ClientSecretId
    service: ServiceId
    prefix: str
    created_by: UserId | None
    created_at: datetime
    made_by_key: ManagementKeyId | None = None
    last_used_at: datetime | None = None


class PlacedSecret(Frozen):
    """A secret, with its service and organization."""

    secret: ClientSecret
    service_slug: str
    organization: OrganizationId


def require_confidential(service: Service) -> None:
    if not service.service_type.is_confidential:
        raise BadRequest(
            f"A {service.service_type} service is a public client, which cannot keep a secret: use PKCE instead", words="public_client"
        )


def require_room_for_client_secret(count: int) -> None:
    if count >= MOST_CLIENT_SECRETS:
        raise BadRequest(
            f"A service has at most {MOST_CLIENT_SECRETS} client secrets: delete one first",
            words="limit_reached",
            values={"most": MOST_CLIENT_SECRETS},
        )


def require_no_client_secret(count: int) -> None:
    """Called before a service changes to a type that cannot keep a secret."""
    if count:
        raise BadRequest(
            "service_type: a service of this type cannot keep a secret; delete its client secrets first", words="public_client"
        )


def client_secret_created(secret: ClientSecret, service: Service, actor: Actor) -> Event:
    return _event_client_secret("client_secret.created", PlacedSecret(secret, service.slug, service.organization), actor)


def client_secret_deleted(secret: ClientSecret, service: Service, actor: Actor) -> Event:
    return _event_client_secret("client_secret.deleted", PlacedSecret(secret, service.slug, service.organization), actor)


def made_secret_deleted(placed: PlacedSecret, actor: Actor) -> Event:
    """The secret ends with the management key that made it."""
    return _event_client_secret("client_secret.deleted", placed, actor)


def _event_client_secret(name: str, placed: PlacedSecret, actor: Actor) -> Event:
    secret = placed.secret
    details: Mapping[str, Json] = {"service_slug": placed.service_slug, "client_secret_id": str(secret.id), "prefix": secret.prefix}
    return Event(name, actor, Target("service", str(secret.service)), placed.organization, details)
