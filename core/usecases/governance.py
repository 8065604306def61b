"""Governing organizations: who is let in, who is halted, what they get, and what there is of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from core.domain import governance
from core.domain.errors import NotFound
from core.domain.governance import UNCHANGED, Authority, Decision, GovernedOrganization, Override, Terms, Wanted
from core.domain.identifiers import OrganizationId, TierId
from core.domain.organizations import Organization, organization_deleted, purge_job
from core.domain.pages import Listed
from core.domain.tiers import Tier
from ports.clock import Clock
from ports.governance import OrganizationRegister
from ports.organizations import Held
from ports.tiers import Tiers
from ports.unit_of_work import UnitOfWorkFactory

_UNKNOWN: Final = "There is no such organization"


class Governance:
    """Whoever calls has seen to it that it is a platform owner, or the operator, who asks. Each decision is taken on the organization as it
    is at that moment, one at a time: of two that exclude each other, the second is refused.
    """

    def __init__(self, unit_of_work: UnitOfWorkFactory, register: OrganizationRegister, tiers: Tiers, clock: Clock) -> None:
        self._unit_of_work = unit_of_work
        self._register = register
        self._tiers = tiers
        self._clock = clock

    async def tiers(self) -> Sequence[Tier]:
        return await self._tiers.list()

    async def tier(self, name: str) -> Tier:
        """Raises `NotFound`, which names those that there are."""
        tiers = await self._tiers.list()
        for one in tiers:
            if one.name == name:
                return one
        raise NotFound(f"There is no such tier; there are {', '.join(one.name for one in tiers)}")

    async def list(self, wanted: Wanted, limit: int, offset: int) -> Listed[GovernedOrganization]:
        return await self._register.list(wanted, limit, offset)

    async def show(self, slug: str) -> GovernedOrganization:
        """Raises `NotFound`."""
        found = await self._register.find(slug)
        if found is None:
            raise NotFound(_UNKNOWN)
        return found

    async def approve(self, organization: OrganizationId, tier: TierId | None, by: Authority) -> Organization:
        """With this tier, or the one that it asked with, which is the free one. Raises `NotFound`, also for the tier, and `BadRequest` when
        it does not wait for approval.
        """
        given = None if tier is None else await self._found(tier)
        now = self._clock.now()
        return await self._decide(
            organization, by, lambda held: governance.approve(held.organization, given or held.tier, by.actor.user, now)
        )

    async def reject(self, organization: OrganizationId, reason: str, by: Authority) -> Organization:
        """Raises `NotFound`, and `BadRequest` without a reason or when it does not wait for approval."""
        now = self._clock.now()
        return await self._decide(organization, by, lambda held: governance.reject(held.organization, reason, now))

    async def suspend(self, organization: OrganizationId, reason: str | None, by: Authority) -> Organization:
        """Its members and whoever uses its services are refused from their next request on. Raises `NotFound`, and `BadRequest` when it is
        not active.
        """
        now = self._clock.now()
        return await self._decide(organization, by, lambda held: governance.suspend(held.organization, reason, now))

    async def activate(self, organization: OrganizationId, by: Authority) -> Organization:
        """After a suspension. Raises `NotFound`, and `BadRequest` when it is not suspended."""
        now = self._clock.now()
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
        """With numbers of its own in place of the tier's, where some are given. May be repeated. Raises `NotFound`, also for the tier."""
        terms = Terms(await self._found(tier), max_services, max_users)
        now = self._clock.now()
        return await self._decide(organization, by, lambda held: governance.change_tier(held.organization, held.tier, terms, now))

    async def delete(self, organization: OrganizationId, by: Authority) -> Organization:
        """Gone from every answer when this returns; its data follows in the background. Raises `NotFound`. Returns what it was."""
        now = self._clock.now()
        async with self._unit_of_work() as unit:
            held = await unit.organizations.hold(organization)
            if held is None:
                raise NotFound(_UNKNOWN)
            await unit.organizations.delete(organization, now)
            await unit.jobs.add(purge_job(organization))
            for event in organization_deleted(held.organization, by.actor):
                await unit.record(replace(event, personal=by.personal))
            await unit.commit()
        return held.organization

    async def _found(self, tier: TierId) -> Tier:
        found = await self._tiers.find(tier)
        if found is None:
            raise NotFound("There is no such tier")
        return found

    async def _decide(self, organization: OrganizationId, by: Authority, decide: Callable[[Held], Decision | None]) -> Organization:
        async with self._unit_of_work() as unit:
            held = await unit.organizations.hold(organization)
            if held is None:
                raise NotFound(_UNKNOWN)
            decision = decide(held)
            if decision is None:
                return held.organization
            await unit.organizations.save(decision.organization)
            await unit.record(decision.event(by))
            await unit.commit()
        return decision.organization
