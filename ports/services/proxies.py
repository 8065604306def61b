"""The store of what is set of applications behind a proxy, and of the hosts that each has."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId
from core.domain.services.proxies import KeptProxy, ProxySettings
from core.domain.services.rights import ServiceRights


class ProxyStore(Protocol):
    """Outside a unit of work, `find` may be called, as one statement and one round trip. The other methods need a unit of work, in which
    the service is held.
    """

    async def find(self, organization: OrganizationId, service_slug: str) -> KeptProxy | None:
        """Of a service that never set anything, the usual settings. None when the organization has no such service."""

    async def rights(self, service: ServiceId) -> ServiceRights:
        """All roles and permissions of the application."""

    async def proved(self, organization: OrganizationId, hosts: Collection[str]) -> Collection[str]:
        """Those of the hosts that lie in a domain of this organization, and in no nearer one of another."""

    async def claim(self, service: ServiceId, host: str, approved_at: datetime | None) -> bool:
        """False when another application has the host. A claim of an organization that has lost the domain, or has had no more than an
        approval where this one has a proof, is no hindrance: it ends. Claiming again changes nothing.
        """

    async def release(self, service: ServiceId, but: Sequence[str]) -> None:
        """Let all other hosts go."""

    async def save(self, service: ServiceId, settings: ProxySettings, at: datetime) -> None: ...
