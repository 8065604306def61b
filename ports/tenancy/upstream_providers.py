"""Where organizations' own upstream providers are kept."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.tenancy.upstream_providers import UpstreamProvider


class UpstreamProviderStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work. The organization is held
    first. Only PostgreSQL implements it.
    """

    async def list(self, organization: OrganizationId) -> Sequence[UpstreamProvider]:
        """All of them, oldest first."""

    async def count(self, organization: OrganizationId) -> int: ...

    async def add(self, provider: UpstreamProvider, sealed_secret: bytes) -> bool:
        """False when the organization has one of this name."""

    async def hold(self, organization: OrganizationId, provider: UpstreamProviderId) -> UpstreamProvider | None:
        """It stays as it is until the unit of work ends. None when the organization has no such provider."""

    async def save(self, provider: UpstreamProvider, sealed_secret: bytes | None) -> bool:
        """After `hold`. Without a secret, the one that it has stays. False when the organization has another one of this name."""

    async def is_named(self, provider: UpstreamProviderId) -> bool:
        """By a domain route. After `hold`, so that none comes to name it meanwhile."""

    async def delete(self, provider: UpstreamProviderId) -> None:
        """With the identities that people have there."""
