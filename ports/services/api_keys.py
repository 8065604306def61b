"""The store of API keys, as digests."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import ApiKeyId, ManagementKeyId, OrganizationId
from core.domain.pages import Listed
from core.domain.services.api_keys import ApiKey, KeyHolder, PlacedKey
from core.domain.tenancy.keys.machine_keys import KnownKey


class ApiKeyLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work. Look-ups of keys by many requests share one statement, so
    they stay apart from `ApiKeyStore`. Keys of services that are being deleted do not exist here.
    """

    async def find(self, digest: bytes) -> KnownKey[KeyHolder] | None:
        """Every request with a key asks here. None when there is no such key, or its service or organization is gone."""

    async def list(self, organization: OrganizationId, service_slug: str, limit: int, offset: int) -> Listed[ApiKey] | None:
        """Newest first, expired keys included. None when the organization has no such service."""

    async def find_by_id(self, organization: OrganizationId, service_slug: str, key: ApiKeyId) -> ApiKey | None:
        """None when the organization has no such service, or the service no such key."""


class ApiKeyStore(Protocol):
    """All methods need a unit of work. Keys of services that are being deleted do not exist here."""

    async def add(self, key: ApiKey, digest: bytes) -> int | None:
        """Returns how many keys the service had before. None when another key has this prefix; then nothing is added. The service is held
        first.
        """

    async def delete(self, organization: OrganizationId, service_slug: str, key: ApiKeyId) -> PlacedKey | None:
        """Returns the deleted key. None when the organization has no such service, or the service no such key: of two callers, one gets
        None.
        """

    async def delete_made(self, key: ManagementKeyId) -> Sequence[PlacedKey]:
        """Returns the deleted keys: all that this management key made. The organization is held."""

    async def revoke(self, prefix: str) -> PlacedKey | None:
        """As `delete`, for a caller who knows only the prefix of the key, in any organization."""
