"""The store of services' roles."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId, ServiceRoleId
from core.domain.services.service_roles import ServiceRole


class ServiceRoleStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each. The other methods need a unit of work in which
    the caller has already locked the service.
    """

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ServiceRole] | None:
        """By slug. None when the organization has no such service."""

    async def find(self, organization: OrganizationId, service_slug: str, slug: str) -> ServiceRole | None:
        """None when the organization has no such service, or the service no such role."""

    async def find_in_service(self, service: ServiceId, slug: str) -> ServiceRole | None: ...

    async def count(self, service: ServiceId) -> int: ...

    async def add(self, role: ServiceRole) -> bool:
        """False when a role of the service has this slug, or once had it."""

    async def save(self, role: ServiceRole) -> None:
        """Saves name, description, permissions, and whether everybody has the role."""

    async def delete(self, role: ServiceRoleId) -> int:
        """Ends the role's assignments, too, and returns their number. Its slug is never used again."""
