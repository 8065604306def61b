"""User API keys: an application lets its users create keys for its own API, and asks whether one is valid."""

import hmac
import re
from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest, Forbidden, NotFound
from core.domain.formats import Json, timestamp
from core.domain.identifiers import ApiKeyId, OrganizationId, ResourceServerId, ServiceId, UserId, UserKeyId
from core.domain.record.events import Actor, Event, Target, differences
from core.domain.requests import UNCHANGED, RecordChange, Unchanged
from core.domain.services import api_keys
from core.domain.services.api_keys import LONGEST_LIFE, key_expiry
from core.domain.services.resource_servers import ResourceScope
from core.domain.services.services import Service
from core.frozen import Frozen, replace, values_of

MOST_KEPT: Final = 1000
"""The most keys that a person names who keeps some of them with a new password."""
MOST_NAMED: Final = 20
"""The most keys that one sentence of a mail names."""
SHORTEST_PREFIX: Final = 2
LONGEST_PREFIX: Final = 12
MOST_KEYS: Final = 100
"""The largest limit that an application may set for one person."""
USUAL_KEYS: Final = 10
LONGEST_KEY: Final = 200
"""Longer than any key. A longer text is no key, whatever it begins with."""

_PREFIX: Final = re.compile(rf"[a-z][a-z0-9_]{{0,{LONGEST_PREFIX - 2}}}[a-z0-9]")
# Scanners of secrets and people tell keys apart by their beginnings.
_OURS: Final = re.compile(rf"({api_keys.API_KEY_KIND}|{api_keys.CLIENT_SECRETS_KIND}|pt[a-z]|scim|whsec)(_.*)?")
_SHAPE: Final = re.compile(r"[a-z][a-z0-9_]{1,11}_[a-z0-9]{6}_[0-9A-Za-z]{43}")


class UserKeySettings(Frozen, kw_only=True):
    """How an application's users may make keys."""

    enabled: bool = False
    prefix: str | None = None
    """The beginning of each key. Other applications may have the same one."""
    most_keys: int = USUAL_KEYS
    """Of one person, without those that have expired."""
    longest_days: int | None = None
    """None: a key may have no end."""
    resource: str | None = None
    """The identifier of the API whose scopes the keys carry. The application must stand for it."""
    resource_id: ResourceServerId | None = None


class UserKeySettingsChange(RecordChange, kw_only=True):
    enabled: bool | Unchanged = UNCHANGED
    prefix: str | Unchanged | None = UNCHANGED
    most_keys: int | Unchanged = UNCHANGED
    longest_days: int | Unchanged | None = UNCHANGED
    resource: str | Unchanged | None = UNCHANGED


class WantedUserKey(Frozen, kw_only=True):
    name: str
    scopes: Sequence[str] = ()
    expires_in_days: int | None = None
    """None: as long as the application allows."""


class UserKey(Frozen, kw_only=True):
    """The stored data of a key. The key itself is only in the answer that creates it. `prefix` is its beginning.

    Postern itself accepts no such key.
    """

    id: UserKeyId
    service: ServiceId
    user: UserId
    name: str
    prefix: str
    resource: ResourceServerId | None
    scopes: tuple[str, ...]
    expires_at: datetime | None
    last_used_at: datetime | None = None
    created_at: datetime
    made_by_key: ApiKeyId | None = None
    """The API key with which the application made it. None for a key that the person made."""


class MadeUserKey(Frozen):
    """A user key that an API key has made."""

    id: UserKeyId
    user: UserId
    name: str
    prefix: str


class OwnedUserKey(Frozen):
    """A key with its person, for those who see all keys of an application."""

    key: UserKey
    email: str


class PlacedUserKey(Frozen):
    """A key with its application, for the record of its end."""

    key: UserKey
    service_slug: str
    service_name: str
    organization: OrganizationId


class HeldUserKey(Frozen, kw_only=True):
    """A key as its person sees it beside those of other applications."""

    id: UserKeyId
    name: str
    prefix: str
    service_slug: str
    service_name: str
    organization_slug: str
    organization_name: str
    is_open: bool
    """The organization is active, so the application's own page of keys opens."""
    made_by_service: bool
    """Otherwise the person made it."""
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None


class UserKeyPage(Frozen):
    """One page, the newest first. `next` is None on the last page."""

    keys: Sequence[OwnedUserKey]
    next: UserKeyId | None


class UserStanding(StrEnum):
    """How a person stands at an application that keys are made for."""

    STRANGER = "stranger"
    LISTED = "listed"
    """Others made the person a user. The person never came, so the application must not learn anything of the account."""
    BARRED = "barred"
    ADMITTED = "admitted"


class UserKeyPlace(Frozen, kw_only=True):
    """An application where a person may have keys."""

    service: ServiceId
    service_slug: str
    service_name: str
    service_logo: str | None
    """The digest of its logo."""
    organization: OrganizationId
    organization_slug: str
    organization_name: str
    settings: UserKeySettings
    offered: Sequence[ResourceScope]
    """The scopes that the person may give to a key: those of an open API whose permissions the person holds, and that ask for no proof."""
    standing: UserStanding

    def require_maker(self) -> None:
        """Raises `NotFound` and `Forbidden` if no key may be made for the person."""
        if self.standing is UserStanding.STRANGER:
            raise NotFound("The service has no such user", words="user_keys_listed")
        if not self.settings.enabled:
            raise Forbidden("The application has not turned on user API keys", words="user_keys_off")
        if self.standing is UserStanding.LISTED:
            raise Forbidden("The user has never signed in to the service, so no keys can be created for the user", words="user_keys_listed")
        if self.standing is UserStanding.BARRED:
            raise Forbidden("The service does not admit the user now", words="user_keys_barred")


class KnownUserKey(Frozen):
    """A key as the database knows it for this check, of the application that asks."""

    id: UserKeyId
    user: UserId
    name: str
    digest: bytes
    scopes: tuple[str, ...]
    """The scopes that the API still has, and for which the person still holds the permissions."""
    expires_at: datetime | None
    is_offered: bool
    """The application has keys of users."""
    is_admitted: bool
    """The person may sign in to the application now."""


class KeyReason(StrEnum):
    """Why a key is not valid. Keys of other applications, revoked keys and texts that are not keys are all `unknown`."""

    UNKNOWN = "unknown"
    EXPIRED = "expired"
    OFF = "off"
    BARRED = "barred"
    LACKS_SCOPE = "lacks_scope"


class KeyVerdict(Frozen):
    """`key` is None unless the key is valid."""

    key: KnownUserKey | None
    reason: KeyReason | None = None


def key_verdict(known: KnownUserKey | None, digest: bytes, wanted: Collection[str], now: datetime) -> KeyVerdict:
    if known is None or not hmac.compare_digest(known.digest, digest):
        return KeyVerdict(None, KeyReason.UNKNOWN)
    if not known.is_offered:
        return KeyVerdict(None, KeyReason.OFF)
    if known.expires_at is not None and known.expires_at <= now:
        return KeyVerdict(None, KeyReason.EXPIRED)
    if not known.is_admitted:
        return KeyVerdict(None, KeyReason.BARRED)
    if not set(wanted) <= set(known.scopes):
        return KeyVerdict(None, KeyReason.LACKS_SCOPE)
    return KeyVerdict(known)


def has_key_shape(text: str) -> bool:
    """Whether the text looks like a key: of an application's user, or of a kind of ours."""
    return len(text) <= LONGEST_KEY and _SHAPE.fullmatch(text) is not None


def changed(before: UserKeySettings, change: UserKeySettingsChange) -> UserKeySettings:
    """Raises `BadRequest`. The id of the API is not known yet if the change names another one."""
    after = checked(replace(before, **change.said))
    return after if after.resource == before.resource else replace(after, resource_id=None)


def checked(settings: UserKeySettings) -> UserKeySettings:
    """Raises `BadRequest`."""
    if settings.prefix is not None and (not _PREFIX.fullmatch(settings.prefix) or _OURS.fullmatch(settings.prefix)):
        raise BadRequest(
            f"prefix: {SHORTEST_PREFIX} to {LONGEST_PREFIX} of a-z, 0-9 and _, beginning with a letter and not ending with _; not "
            "sk, cs, scim, whsec or pt and one more letter",
            words="user_key_prefix",
            values={"least": SHORTEST_PREFIX, "most": LONGEST_PREFIX},
        )
    if settings.enabled and settings.prefix is None:
        raise BadRequest("prefix: keys of users need one", words="user_key_prefix_missing")
    if not 1 <= settings.most_keys <= MOST_KEYS:
        raise BadRequest(f"most_keys: 1 to {MOST_KEYS}", words="number_range", values={"least": 1, "most": MOST_KEYS})
    if settings.longest_days is not None and not 1 <= settings.longest_days <= LONGEST_LIFE:
        raise BadRequest(
            f"longest_days: 1 to {LONGEST_LIFE}, or null for keys that do not expire",
            words="number_range",
            values={"least": 1, "most": LONGEST_LIFE},
        )
    return settings


def key_scopes(wanted: Collection[str], place: UserKeyPlace) -> tuple[str, ...]:
    """Each scope once, in the order of the API. Raises `BadRequest` for a scope that the person may not give."""
    offered = [scope.name for scope in place.offered]
    if unknown := [name for name in wanted if name not in offered]:
        raise BadRequest(f"scopes: the user cannot grant {unknown[0]} to a key", words="user_key_scope")
    return tuple(name for name in offered if name in wanted)


def user_key_expiry(days: int | None, settings: UserKeySettings, now: datetime) -> datetime | None:
    """The end of a key's life: the longest one, unless an earlier one is wanted. None when the key does not expire. Raises `BadRequest`."""
    most = settings.longest_days
    if days is None:
        return key_expiry(most, now)
    if most is not None and days > most:
        raise BadRequest(f"expires_in_days: 1 to {most}", words="user_key_life", values={"most": most})
    return key_expiry(days, now)


def require_room(count: int, settings: UserKeySettings) -> None:
    if count >= settings.most_keys:
        raise BadRequest(
            f"A user can have at most {settings.most_keys} keys at this service: revoke one first",
            words="limit_reached",
            values={"most": settings.most_keys},
        )


def user_key_created(key: UserKey, service_slug: str, organization: OrganizationId, actor: Actor) -> Event:
    return _event("user_key.created", key, service_slug, organization, actor)


def user_key_revoked(key: UserKey, service_slug: str, organization: OrganizationId, actor: Actor) -> Event:
    return _event("user_key.revoked", key, service_slug, organization, actor)


def named_keys(keys: Sequence[PlacedUserKey | HeldUserKey]) -> tuple[str, ...]:
    """The keys for a mail: each with its application."""
    names = [(one.key.name if isinstance(one, PlacedUserKey) else one.name, one.service_name) for one in keys[:MOST_NAMED]]
    return (*(f"{name} ({application})" for name, application in names), *["…"][: len(keys) - len(names)])


def user_keys_updated(before: UserKeySettings, after: UserKeySettings, service: Service, actor: Actor) -> Event:
    """The event says what changed, with the earlier values."""
    old, new = ({name: value for name, value in values_of(one).items() if name != "resource_id"} for one in (before, after))
    details: dict[str, Json] = {"service_slug": service.slug, **differences(old, new)}
    return Event("service.user_keys.updated", actor, Target("service", str(service.id)), service.organization, details)


def _event(name: str, key: UserKey, service_slug: str, organization: OrganizationId, actor: Actor) -> Event:
    # The person wrote the key's name, so the event does not have it.
    details: dict[str, Json] = {
        "user_key_id": str(key.id),
        "user_id": str(key.user),
        "service_id": str(key.service),
        "service_slug": service_slug,
        "prefix": key.prefix,
        "scopes": list(key.scopes),
        "expires_at": None if key.expires_at is None else timestamp(key.expires_at),
    }
    return Event(name, actor, Target("user_key", str(key.id)), organization, details)
