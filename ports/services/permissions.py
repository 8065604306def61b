"""The store of services' permissions."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId
from core.domain.services.permissions import ServicePermission


class ServicePermissionStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work in which the caller has
    already locked the service.
    """

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ServicePermission] | None:
        """By key. None when the organization has no such service."""

    async def count(self, service: ServiceId) -> int: ...

    async def unknown(self, service: ServiceId, keys: Collection[str]) -> Collection[str]:
        """Those of the keys that no permission of the service has."""

    async def find(self, service: ServiceId, key: str) -> ServicePermission | None: ...

    async def add(self, permission: ServicePermission) -> bool:
        """False when a permission of the service has this key, or once had it."""

    async def save(self, permission: ServicePermission) -> None:
        """Saves the description."""

    async def delete(self, permission: ServicePermission, at: datetime) -> None:
        """Takes the permission out of the service's roles, too. Its key is never used again."""
