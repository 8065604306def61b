"""Where services are kept."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId
from core.domain.pages import Listed
from core.domain.services.services import RegisteredService, Service, ServiceList, ServiceType, ServiceUsage
from core.domain.tenancy.organizations import Organization


class ServiceStore(Protocol):
    """Outside a unit of work, `list` and `get` are one statement and one round trip each. The other methods need a unit of work. Services
    that are being deleted do not exist here. Only PostgreSQL implements it.
    """

    async def list(
        self, organization: OrganizationId, *, service_type: ServiceType | None = None, limit: int | None = None, offset: int = 0
    ) -> ServiceList | None:
        """Oldest first; all of them unless a limit is given. None when the organization is being deleted."""

    async def get(self, organization: OrganizationId, slug: str) -> Service | None: ...

    async def add(self, service: Service) -> bool:
        """False when the organization has one with this slug: of two callers, one gets False. After the organization is held."""

    async def usage(self, organization: OrganizationId) -> tuple[Organization, ServiceUsage]:
        """How many services it has and may have. After the organization is held."""

    async def hold(self, organization: OrganizationId, slug: str) -> Service | None:
        """One change to it, or to the number of something it has, at a time. It stays as it is until the unit of work ends. None when there
        is none.
        """

    async def save(self, service: Service) -> None:
        """Everything but id, organization, slug, client id and creation. After `hold`."""

    async def delete(self, service: ServiceId, at: datetime) -> None:
        """Gone from every answer with the commit. Its rows are removed in batches. After `hold`."""


class ServiceRegister(Protocol):
    """For all organizations. Services and organizations that are being deleted do not exist here."""

    async def list(self, organization_slug: str | None, limit: int, offset: int) -> Listed[RegisteredService]:
        """Newest first. The total is counted up to `MOST_COUNTED`."""

    async def find(self, organization_slug: str, slug: str) -> RegisteredService | None: ...
