"""Where API keys are kept: as digests."""

from typing import Protocol

from core.domain.api_keys import ApiKey, KnownKey, PlacedKey
from core.domain.identifiers import ApiKeyId, OrganizationId
from core.domain.pages import Listed


class ApiKeyLookup(Protocol):
    """Outside any unit of work: one statement, one round trip each. Knows nothing of keys of services that are being deleted."""

    async def find(self, digest: bytes) -> KnownKey | None:
        """On every request with a key. None when nobody has such a key, or its service or organization is gone."""

    async def list(self, organization: OrganizationId, service_slug: str, limit: int, offset: int) -> Listed[ApiKey] | None:
        """The youngest first, those too that have expired. None when the organization has no such service."""

    async def get(self, organization: OrganizationId, service_slug: str, key: ApiKeyId) -> ApiKey | None:
        """None when the organization has no such service, or that one no such key."""


class ApiKeyStore(Protocol):
    """Part of the unit of work. Knows nothing of keys of services that are being deleted."""

    async def add(self, key: ApiKey, digest: bytes) -> int | None:
        """How many the service had before. None when some service's key has this prefix already, and then nothing is added. The service is
        held first.
        """

    async def delete(self, organization: OrganizationId, service_slug: str, key: ApiKeyId) -> PlacedKey | None:
        """As it was. None when the organization has no such service, or that one no such key: of two callers, one gets None."""

    async def revoke(self, prefix: str) -> PlacedKey | None:
        """The same for whoever knows no more of it than how it begins, in whichever organization it is."""
