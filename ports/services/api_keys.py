"""Where API keys are kept: as digests."""

from typing import Protocol

from core.domain.identifiers import ApiKeyId, OrganizationId
from core.domain.pages import Listed
from core.domain.services.api_keys import ApiKey, KeyHolder, PlacedKey
from core.domain.tenancy.machine_keys import KnownKey


class ApiKeyLookup(Protocol):
    """Outside any unit of work, one statement and one round trip each. Keys of services that are being deleted do not exist here."""

    async def find(self, digest: bytes) -> KnownKey[KeyHolder] | None:
        """Asked on every request with a key. None when there is no such key, or its service or organization is gone."""

    async def list(self, organization: OrganizationId, service_slug: str, limit: int, offset: int) -> Listed[ApiKey] | None:
        """Newest first, expired keys included. None when the organization has no such service."""

    async def get(self, organization: OrganizationId, service_slug: str, key: ApiKeyId) -> ApiKey | None:
        """None when the organization has no such service, or the service no such key."""


class ApiKeyStore(Protocol):
    """Part of the unit of work. Keys of services that are being deleted do not exist here."""

    async def add(self, key: ApiKey, digest: bytes) -> int | None:
        """Returns how many keys the service had before. None when another key has this prefix; then nothing is added. The service is held
        first.
        """

    async def delete(self, organization: OrganizationId, service_slug: str, key: ApiKeyId) -> PlacedKey | None:
        """Returns what it was. None when the organization has no such service, or the service no such key: of two
        callers, one gets None.
        """

    async def revoke(self, prefix: str) -> PlacedKey | None:
        """The same for a caller who knows only how the key begins, in any organization."""
