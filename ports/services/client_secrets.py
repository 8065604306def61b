"""The store of client secrets, as digests."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import ClientSecretId, ManagementKeyId, OrganizationId, ServiceId
from core.domain.services.client_secrets import ClientSecret, PlacedSecret


class ClientSecretStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work in which the
    caller has already locked the service. Only PostgreSQL implements `ClientSecretStore`.
    """

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ClientSecret] | None:
        """Oldest first. None when the organization has no such service."""

    async def count(self, service: ServiceId) -> int: ...

    async def add(self, secret: ClientSecret, digest: bytes) -> None: ...

    async def delete(self, service: ServiceId, secret: ClientSecretId) -> ClientSecret | None:
        """Returns the deleted secret. None when the service has no such secret: of two callers, one gets None."""

    async def delete_made(self, key: ManagementKeyId) -> Sequence[PlacedSecret]:
        """Returns the deleted secrets: all that this management key made. It holds their services; the organization is held before."""
