"""The store of services."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import ClientId, LogoId, OrganizationId, ServiceId
from core.domain.pages import Listed
from core.domain.services.services import RegisteredService, Service, ServiceList, ServiceType, ServiceUsage
from core.domain.tenancy.look_pictures import Logo
from core.domain.tenancy.metadata import Metadata
from core.domain.tenancy.organizations import Organization
from core.frozen import Frozen


class KeptMetadata(Frozen):
    """The metadata of a service, and of its organization."""

    of_service: Metadata
    of_organization: Metadata


class ServiceStore(Protocol):
    """Outside a unit of work, `list`, `find` and `metadata` are one statement and one round trip each. The other methods need a unit of
    work. Services that are being deleted do not exist here.
    """

    async def list(
        self, organization: OrganizationId, *, service_type: ServiceType | None = None, limit: int | None = None, offset: int = 0
    ) -> ServiceList | None:
        """Oldest first; all services unless a limit is given. None when the organization is being deleted."""

    async def find(self, organization: OrganizationId, slug: str) -> Service | None:
        """With its metadata."""

    async def metadata(self, service: ServiceId) -> KeptMetadata | None:
        """None when there is no such service."""

    async def add(self, service: Service) -> bool:
        """False when the organization has a service with this slug: of two callers, one gets False. The organization is held before."""

    async def usage(self, organization: OrganizationId) -> tuple[Organization, ServiceUsage]:
        """How many services the organization has and may have. Called after the organization is held."""

    async def hold(self, organization: OrganizationId, slug: str) -> Service | None:
        """One change to the service, or to the number of its plans, keys or secrets, at a time. It stays as it is until the unit of work
        ends. Comes with its metadata. None when there is no such service.
        """

    async def save(self, service: Service) -> None:
        """Saves everything but id, organization, slug, client id and creation. Metadata that are None stay as they are. After `hold`."""

    async def replace_logo(self, service: Service, logo: Logo | None, id: LogoId) -> None:  # noqa: A002 - the noun's own word
        """Keeps the picture that the service names, and says when it changed. With None, removes the logo. After `hold`."""

    async def keep_client_id(self, service: ServiceId, kept: ClientId | None) -> ClientId | None:
        """The client id that counts from now on: `kept`, or the service's own one. None when another service has it, and then the unit of
        work is over. After `hold`.
        """

    async def end_requests(self, service: ServiceId) -> None:
        """Ends the codes that nobody has redeemed, and the pushed requests: they began under another profile."""

    async def delete(self, service: ServiceId, at: datetime) -> None:
        """The service is gone from every answer with the commit. Its rows are removed in batches. After `hold`."""


class ServiceRegister(Protocol):
    """The services of all organizations, outside any unit of work. Services and organizations that are being deleted do not exist here."""

    async def list(self, organization_slug: str | None, limit: int, offset: int) -> Listed[RegisteredService]:
        """Newest first. The total is counted up to `MOST_COUNTED`."""

    async def find(self, organization_slug: str, slug: str) -> RegisteredService | None: ...
