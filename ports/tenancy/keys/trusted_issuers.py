"""The store of trusted issuers."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import ClientId, ManagementKeyId, OrganizationId, ServiceId, TrustedIssuerId
from core.domain.tenancy.keys.trusted_issuers import TrustedIssuer
from core.frozen import Frozen


class TrustingService(Frozen):
    """The service that a new rule is for. `is_confidential`: it runs on its owners' machines."""

    id: ServiceId
    is_confidential: bool


class ExistingTrustedIssuers(Frozen):
    """What a new rule meets: the number of rules in its organization, and of those for the same service or key."""

    count: int
    of_one: int


class TrustedIssuerStore(Protocol):
    """Outside a unit of work, `list`, `find` and `asked_by` are one statement and one round trip each. The other methods need a unit of
    work in which the caller has locked the organization. Only PostgreSQL implements `TrustedIssuerStore`.
    """

    async def list(self, organization: OrganizationId) -> Sequence[TrustedIssuer]:
        """Oldest first."""

    async def find(self, organization: OrganizationId, rule: TrustedIssuerId) -> TrustedIssuer | None: ...

    async def asked_by(self, client: ClientId) -> Sequence[TrustedIssuer]:
        """The rules of the service with this client id, or of the management key with this id. None are found by anything else."""

    async def service(self, organization: OrganizationId, slug: str) -> TrustingService | None:
        """The service stays until the unit of work ends."""

    async def existing(
        self, organization: OrganizationId, service: ServiceId | None, key: ManagementKeyId | None
    ) -> ExistingTrustedIssuers: ...

    async def add(self, rule: TrustedIssuer) -> bool:
        """False when the organization has a rule of this name: of two callers, one gets False."""

    async def save(self, rule: TrustedIssuer) -> bool:
        """Saves everything that an organization sets. False when another rule of the organization has this name."""

    async def remove(self, rule: TrustedIssuerId) -> None: ...
