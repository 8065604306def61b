"""The store of domain routes."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import DomainId, OrganizationId
from core.domain.tenancy.domain_routes import NO_PROVIDER, DomainRoute, NamedProvider
from core.frozen import Frozen
from ports.tenancy.domains import ProofStore


class ExistingRoutes(Frozen):
    """The reasons against another route."""

    count: int
    has_domain: bool
    """The organization has a route for the domain."""


class HeldRoute(Frozen):
    route: DomainRoute
    provider_is_known: bool
    """Whether the organization has the provider that the caller asked about."""


class DomainRouteStore(ProofStore[DomainRoute], Protocol):
    """Outside a unit of work, `list`, `find_route` and `claim_due` are one statement and one round trip each. The other methods need a unit
    of work. When a member acts, the caller has already locked the organization. Only PostgreSQL implements `DomainRouteStore`.
    """

    async def list(self, organization: OrganizationId) -> Sequence[DomainRoute]:
        """Oldest first."""

    async def find_route(self, organization: OrganizationId, route: DomainId) -> DomainRoute | None: ...

    async def add(self, route: DomainRoute, most: int, *, provider_is_known: bool) -> DomainRoute | None:
        """A route for the organization's own domain gets the token that proves the domain already: one proof is enough for both. None when
        the domain has a route, when there are as many routes as there may be, or when neither `provider_is_known` nor the provider exists.
        Of two callers, one gets the route.
        """

    async def standing(self, organization: OrganizationId, domain: str) -> ExistingRoutes: ...

    async def find(self, organization: OrganizationId, route: DomainId, provider: NamedProvider = NO_PROVIDER) -> HeldRoute | None:
        """The route, and whether the organization has this provider, or a client at it."""

    async def save(self, route: DomainRoute) -> None:
        """Changes where the route leads; its domain and proof stay as they are."""

    async def remove(self, route: DomainId) -> None: ...
