"""The store of plans."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, PlanId, ServiceId
from core.domain.services.plans import Plan, PlanOverview


class PlanStore(Protocol):
    """Outside a unit of work, `list` is one statement, and two when there is nothing to list. The other methods need a unit of work."""

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[PlanOverview] | None:
        """Cheapest first. None when the organization has no such service."""

    async def keys(self, service: ServiceId) -> Collection[str]:
        """The keys of all its plans."""

    async def add(self, plan: Plan) -> None: ...

    async def hold(self, organization: OrganizationId, service_slug: str, plan: PlanId) -> PlanOverview | None:
        """The plan stays as it is, and nobody subscribes to it, until the unit of work ends. None when the service has no such plan."""

    async def offer(self, service: ServiceId, plan: PlanId, *, leaving: PlanId | None = None) -> Plan | None:
        """A plan of any service, for a person who is about to subscribe. A plan of this service stays as it is until the unit of work ends,
        and so does the plan that the person is `leaving`. None when there is no such plan. This method is the only way to hold two plans.
        It holds both at once, because two people who change places would otherwise wait for each other. Call it before anything is changed
        about subscriptions to either plan.
        """

    async def save(self, plan: Plan) -> None:
        """Saves everything but id, service and creation. After `hold`."""

    async def delete(self, plan: PlanId, at: datetime) -> None:
        """After `hold`."""
