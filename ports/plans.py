"""Where plans are kept. One that was deleted is known no more, except to the subscriptions that were once to it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, PlanId, ServiceId
from core.domain.plans import Plan, PlanOverview


class PlanStore(Protocol):
    """Part of the unit of work."""

    async def count(self, service: ServiceId) -> int: ...

    async def add(self, plan: Plan) -> None: ...

    async def hold(self, organization: OrganizationId, service_slug: str, plan: PlanId) -> PlanOverview | None:
        """It stays as it is, and nobody subscribes to it, until the unit of work ends. None when the service has no such plan."""

    async def offer(self, service: ServiceId, plan: PlanId, *, leaving: PlanId | None = None) -> Plan | None:
        """A plan of any service, for whoever is about to subscribe: if it is of this service, it stays as it is until the unit of work
        ends, and so does the plan that they are `leaving` for it. None when there is none.

        The only way to hold two plans: both at once, or two who change places would wait for each other. Before anything is changed about
        subscriptions to either.
        """

    async def save(self, plan: Plan) -> None:
        """Everything but id, service and creation, as it is now. After `hold`."""

    async def delete(self, plan: PlanId, at: datetime) -> None:
        """After `hold`."""


class PlanLookup(Protocol):
    """Outside any unit of work."""

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[PlanOverview] | None:
        """The cheapest first. None when the organization has no such service. One statement when there is anything to list."""
