"""The store of the claims that services have configured."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceClaimId, ServiceId
from core.domain.services.service_claims import ConfiguredClaim


class ServiceClaimStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work in which the caller has
    already locked the service.
    """

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ConfiguredClaim] | None:
        """By name. None when the organization has no such service."""

    async def find(self, service: ServiceId, claim: ServiceClaimId) -> ConfiguredClaim | None: ...

    async def count(self, service: ServiceId) -> int: ...

    async def add(self, claim: ConfiguredClaim) -> bool:
        """False when the service has a claim of this name."""

    async def save(self, claim: ConfiguredClaim) -> bool:
        """Saves name, source, argument and places. False when the service has another claim of this name."""

    async def is_made_of(self, organization: OrganizationId, field: str) -> bool:
        """Whether a service of the organization makes a claim of the organization's field with this key. Needs a lock on the organization
        alone: nobody configures claims without it.
        """

    async def delete(self, service: ServiceId, claim: ServiceClaimId) -> ConfiguredClaim | None:
        """Returns the deleted claim. None when the service has no such claim: of two callers, one gets None."""
