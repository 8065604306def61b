"""Where the domain routes of organizations are kept."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import DomainId, OrganizationId
from core.domain.tenancy.domain_routes import NO_PROVIDER, DomainRoute, NamedProvider
from core.frozen import Frozen
from ports.tenancy.domains import ProofStore


class ExistingRoutes(Frozen):
    """What speaks against another route."""

    count: int
    has_domain: bool
    """The organization has a route for the domain."""


class HeldRoute(Frozen):
    route: DomainRoute
    provider_is_known: bool
    """The one that was asked about."""


class DomainRouteStore(ProofStore[DomainRoute], Protocol):
    """Outside a unit of work, `list`, `get` and `claim_due` are one statement and one round trip each. The other methods need a unit of
    work. The organization is held first where a member acts. Only PostgreSQL implements it.
    """

    async def list(self, organization: OrganizationId) -> Sequence[DomainRoute]:
        """Oldest first."""

    async def get(self, organization: OrganizationId, route: DomainId) -> DomainRoute | None: ...

    async def add(self, route: DomainRoute, most: int, *, provider_is_known: bool) -> DomainRoute | None:
        """With the token that proves the same domain already, where it is the organization's own one: one proof is enough for both. None
        when there is one for the domain, or as many as there may be, or no such provider and it is not known. Of two callers, one gets it.
        """

    async def standing(self, organization: OrganizationId, domain: str) -> ExistingRoutes: ...

    async def find(self, organization: OrganizationId, route: DomainId, provider: NamedProvider = NO_PROVIDER) -> HeldRoute | None:
        """And whether the organization has such a provider, or a client at it."""

    async def save(self, route: DomainRoute) -> None:
        """Where it leads; the domain and its proof stay as they are."""

    async def remove(self, route: DomainId) -> None: ...
