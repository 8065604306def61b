"""Governs organizations: lists, approves, rejects and suspends them, and gives them tiers."""

from collections.abc import Callable, Sequence
from typing import Final

from core.domain.changes import UNCHANGED
from core.domain.errors import NotFound, found
from core.domain.identifiers import OrganizationId, TierId
from core.domain.pages import Listed
from core.domain.platform import governance
from core.domain.platform.governance import (
    Authority,
    Belongings,
    GovernanceDecision,
    GovernedOrganization,
    OrganizationFilter,
    Override,
    Terms,
)
from core.domain.tenancy.organizations import Organization, organization_deleted, purge_job
from core.domain.tenancy.tiers import FREE, Tier
from core.frozen import Frozen, replace
from ports.clock import Clock
from ports.platform.governance import OrganizationRegister
from ports.tenancy.organizations import HeldOrganization
from ports.tenancy.tiers import Tiers
from ports.unit_of_work import UnitOfWorkFactory

_UNKNOWN: Final = "There is no such organization"


class Governance(Frozen):
    """The caller has checked that the request comes from a platform owner or the operator. Each decision holds the organization, so of two
    decisions that exclude each other the second is refused.
    """

    unit_of_work: UnitOfWorkFactory
    register: OrganizationRegister
    tier_lookup: Tiers
    clock: Clock

    async def tiers(self) -> Sequence[Tier]:
        return await self.tier_lookup.list()

    async def tier(self, name: str) -> Tier:
        """Raises `NotFound`, which names the tiers that exist."""
        tiers = await self.tier_lookup.list()
        for one in tiers:
            if one.name == name:
                return one
        raise NotFound(f"There is no such tier; the tiers are {', '.join(one.name for one in tiers)}")

    async def list(self, wanted: OrganizationFilter, limit: int, offset: int) -> Listed[GovernedOrganization]:
        return await self.register.list(wanted, limit, offset)

    async def show(self, organization: str | OrganizationId) -> GovernedOrganization:
        """Finds the organization by its slug, or by its id. Raises `NotFound`."""
        return found(await self.register.find(organization), _UNKNOWN)

    async def belongings(self, organization: OrganizationId) -> Belongings:
        """Counts the things that would end with the organization."""
        return await self.register.belongings(organization)

    async def approve(self, organization: OrganizationId, tier: TierId | None, by: Authority) -> Organization:
        """Approves the organization with this tier. Without a tier, it gets the free tier; a platform owner's organization keeps its tier.
        Raises `NotFound`, also for the tier, and `BadRequest` when the organization does not wait for approval.
        """
        given = await self._found(FREE if tier is None else tier)
        now = self.clock.now()

        def approved(held: HeldOrganization) -> GovernanceDecision:
            keeps = tier is None and held.owner_governs
            return governance.approve(held.organization, held.tier if keeps else given, by.actor.user, now)

        return await self._decide(organization, by, approved)

    async def reject(self, organization: OrganizationId, reason: str, by: Authority) -> Organization:
        """Raises `NotFound`, and `BadRequest` without a reason or when the organization is not waiting for approval."""
        now = self.clock.now()
        return await self._decide(organization, by, lambda held: governance.reject(held.organization, reason, now))

    async def suspend(self, organization: OrganizationId, reason: str | None, by: Authority) -> Organization:
        """Suspends the organization: its members and the users of its services are refused from their next request on. Raises `NotFound`,
        and `BadRequest` when the organization is not active.
        """
        now = self.clock.now()
        return await self._decide(organization, by, lambda held: governance.suspend(held.organization, reason, now))

    async def activate(self, organization: OrganizationId, by: Authority) -> Organization:
        """Ends a suspension. Raises `NotFound`, and `BadRequest` when the organization is not suspended."""
        now = self.clock.now()
        return await self._decide(organization, by, lambda held: governance.activate(held.organization, now))

    async def change_tier(
        self,
        organization: OrganizationId,
        tier: TierId,
        by: Authority,
        *,
        max_services: Override = UNCHANGED,
        max_users: Override = UNCHANGED,
    ) -> Organization:
        """Gives the organization another tier. Numbers in the request replace the tier's. May be repeated. Raises `NotFound`, also for the
        tier.
        """
        terms = Terms(await self._found(tier), max_services, max_users)
        now = self.clock.now()
        return await self._decide(organization, by, lambda held: governance.change_tier(held.organization, held.tier, terms, now))

    async def delete(self, organization: OrganizationId, by: Authority) -> Organization:
        """The organization disappears from every answer at once; its data is removed in the background. Returns the deleted organization.
        Raises `NotFound`.
        """
        now = self.clock.now()
        async with self.unit_of_work() as uow:
            held = found(await uow.organizations.hold(organization), _UNKNOWN)
            await uow.organizations.delete(organization, now)
            await uow.jobs.add(purge_job(organization))
            for event in organization_deleted(held.organization, by.actor):
                await uow.record(replace(event, personal=by.personal))
            await uow.commit()
        return held.organization

    async def _found(self, tier: TierId) -> Tier:
        return found(await self.tier_lookup.find(tier), "There is no such tier")

    async def _decide(
        self, organization: OrganizationId, by: Authority, decide: Callable[[HeldOrganization], GovernanceDecision | None]
    ) -> Organization:
        async with self.unit_of_work() as uow:
            held = found(await uow.organizations.hold(organization), _UNKNOWN)
            decision = decide(held)
            if decision is None:
                return held.organization
            await uow.organizations.save(decision.organization)
            await uow.record(decision.event(by))
            await uow.commit()
        return decision.organization
