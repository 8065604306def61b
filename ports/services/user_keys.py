"""The store of user keys, as digests, and of the settings under which people make them."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import ApiKeyId, OrganizationId, ResourceServerId, ServiceId, UserId, UserKeyId
from core.domain.services.api_keys import KeyHolder
from core.domain.services.user_keys import (
    HeldUserKey,
    KnownUserKey,
    MadeUserKey,
    OwnedUserKey,
    PlacedUserKey,
    UserKey,
    UserKeyPage,
    UserKeyPlace,
    UserKeySettings,
)
from core.domain.tenancy.keys.machine_keys import KnownKey


class UserKeyLookup(Protocol):
    """One statement and one round trip, outside any unit of work. Look-ups by many requests share one statement."""

    async def find(self, api_key: bytes, user_key: bytes) -> tuple[KnownKey[KeyHolder], KnownUserKey | None] | None:
        """By their digests, the API key of an application's server, and a key of the application's users. None when there is no such API
        key. The user key is None when the application has no such key.
        """


class UserKeyStore(Protocol):
    """Outside a unit of work, `list`, `list_of`, `held_by`, `made_with`, `find`, `settings`, `service`, `place` and `place_at` are one
    statement and one round trip each. The other methods need a unit of work. Keys of services that are being deleted do not exist here.
    """

    async def settings(self, organization: OrganizationId, service_slug: str) -> UserKeySettings | None:
        """None when the organization has no such service."""

    async def standing_for(self, service: ServiceId, identifier: str) -> ResourceServerId | None:
        """The API with this identifier that the service stands for. The API is held until the unit of work ends."""

    async def save_settings(self, service: ServiceId, settings: UserKeySettings, at: datetime) -> None:
        """The service is held."""

    async def place(self, service: ServiceId, user: UserId) -> UserKeyPlace | None:
        """None when the service is gone."""

    async def place_at(self, organization_slug: str, service_slug: str, user: UserId) -> UserKeyPlace | None:
        """The same by the names of the service. None when there is no such service of an active organization."""

    async def hold_place(self, service: ServiceId, user: UserId) -> UserKeyPlace | None:
        """As `place`. The account is held. Nobody else makes a key for the person there until the unit of work ends, and the person stays
        a user.
        """

    async def hold_maker(self, key: ApiKeyId) -> bool:
        """The API key that makes a key stays until the unit of work ends. False when it has gone since the request came in. Comes before
        `hold_place`.
        """

    async def add(self, key: UserKey, digest: bytes) -> int | None:
        """Returns how many keys the person had before that have not expired. None when another key has this prefix; then nothing is
        added. The place is held.
        """

    async def list(self, service: ServiceId, user: UserId | None, after: UserKeyId | None, limit: int) -> UserKeyPage:
        """Newest first, expired keys included. Of all users, or of one."""

    async def list_of(self, organization: OrganizationId, service_slug: str, after: UserKeyId | None, limit: int) -> UserKeyPage | None:
        """The same for a member of the organization. None when it has no such service."""

    async def find(self, service: ServiceId, key: UserKeyId) -> OwnedUserKey | None: ...

    async def delete(self, service: ServiceId, key: UserKeyId, user: UserId | None = None) -> UserKey | None:
        """Returns the deleted key: the service's, and this person's if one is named. Of two callers, one gets None."""

    async def held_by(self, user: UserId, at: datetime) -> Sequence[HeldUserKey]:
        """The person's keys at all services, the newest first, without those that have expired."""

    async def made_with(self, service: ServiceId, key: ApiKeyId) -> Sequence[MadeUserKey]:
        """What the service's API key has made that lasts: the newest, at most `MOST_LISTED`."""

    async def end_made(self, service: ServiceId, key: ApiKeyId) -> Sequence[UserKey]:
        """Ends all that the service's API key has made, and returns it."""

    async def delete_held(self, user: UserId, key: UserKeyId) -> PlacedUserKey | None:
        """As `delete`, at whatever service the person has the key."""

    async def end_held(
        self, user: UserId, at: datetime, *, but: Collection[UserKeyId] | None, organization: OrganizationId | None = None
    ) -> Sequence[PlacedUserKey]:
        """Ends the person's keys at all services, or at those of one organization, except for these and for expired ones, and returns them.
        None: those that applications made for the person stay. The account is held, so that nobody makes a key meanwhile.
        """

    async def remove_all(self, user: UserId) -> None:
        """End the person's keys at all services. The account is held."""

    async def service(self, organization: OrganizationId, service_slug: str) -> ServiceId | None: ...
