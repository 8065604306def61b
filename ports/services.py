"""Where services are kept."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId
from core.domain.pages import Listed
from core.domain.services import RegisteredService, Service, ServiceList, ServiceType


class ServiceStore(Protocol):
    """Part of the unit of work. Knows nothing of services that are being deleted."""

    async def add(self, service: Service) -> bool:
        """False when the organization has one of this slug: of two callers, one gets False. After `OrganizationStore.hold`."""

    async def count(self, organization: OrganizationId) -> int: ...

    async def find(self, organization: OrganizationId, slug: str) -> Service | None: ...

    async def hold(self, organization: OrganizationId, slug: str) -> Service | None:
        """One change to it, or to how many of something it has, at a time; until the unit of work ends it stays as it is. None when there
        is none.
        """

    async def save(self, service: Service) -> None:
        """Everything but id, organization, slug, client id and creation, as it is now. After `hold`."""

    async def delete(self, service: ServiceId, at: datetime) -> None:
        """Gone from every answer with the commit; its rows follow in batches. After `hold`."""


class ServiceLookup(Protocol):
    """Outside any unit of work: one statement each. Knows nothing of services that are being deleted."""

    async def list(
        self, organization: OrganizationId, *, service_type: ServiceType | None = None, limit: int | None = None, offset: int = 0
    ) -> ServiceList | None:
        """The oldest first, all of them unless a limit is named. None when the organization itself is being deleted."""

    async def get(self, organization: OrganizationId, slug: str) -> Service | None: ...


class ServiceRegister(Protocol):
    """Of all organizations. Knows nothing of services, or of those of organizations, that are being deleted."""

    async def list(self, organization_slug: str | None, limit: int, offset: int) -> Listed[RegisteredService]:
        """The youngest first. The total is counted up to `MOST_COUNTED`."""

    async def find(self, organization_slug: str, slug: str) -> RegisteredService | None: ...
