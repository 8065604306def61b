"""Governance: platform owners approve, reject and suspend organizations, set their tiers, and approve their custom texts."""

from collections.abc import Callable, Sequence
from typing import Final

from core.domain.errors import Conflict, NotFound, found
from core.domain.identifiers import OrganizationId, TierId
from core.domain.identity.callers import Caller
from core.domain.languages import DEFAULT, Language
from core.domain.platform import governance
from core.domain.platform.governance import (
    MOST_APPROVALS_LISTED,
    MOST_LISTED_TEXTS,
    ApprovalOutcome,
    Authority,
    Belongings,
    ComparedText,
    ComparedTexts,
    GovernanceDecision,
    GovernedOrganization,
    OrganizationFilter,
    OrganizationTexts,
    Override,
    Terms,
    approval_withdrawn,
    require_seen,
    rules_changed,
    texts_approved,
)
from core.domain.record.events import Actor
from core.domain.requests import UNCHANGED, Listed
from core.domain.tenancy.organizations import Organization, organization_deleted, purge_job
from core.domain.tenancy.tiers import FREE, Tier
from core.domain.texts.own_texts import ApprovalRules
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import hold_office
from ports.metrics import Metrics
from ports.platform import OrganizationRegister, TextApprovalStore
from ports.system import Clock
from ports.tenancy.organizations import HeldOrganization, Tiers
from ports.texts import ShippedWords
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

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
            await uow.record_all([decision.event(by), *decision.for_streams()])
            await uow.commit()
        return decision.organization


_TEXT_APPROVAL_UNKNOWN = "No organization with custom text was found"


class TextApprovals(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: TextApprovalStore
    shipped: ShippedWords
    metrics: Metrics

    async def list(self) -> Sequence[ComparedTexts]:
        """Those that wait come first. One that is not listed is, once somebody has said yes to others."""
        return [self._compared(one) for one in await self.lookup.list(MOST_APPROVALS_LISTED, MOST_LISTED_TEXTS)]

    async def approve(self, owner: Caller, organization: OrganizationId, version: str, actor: Actor) -> None:
        """Raises `NotFound`, `Conflict` when the texts are not those that the owner has seen, `BadRequest`, and `Forbidden`."""
        async with self.unit_of_work() as uow:
            held = await self._held(uow, owner, organization)
            found(held.version or None, _TEXT_APPROVAL_UNKNOWN)
            try:
                require_seen(held, version)
            except Conflict:
                self.metrics.text_approval(ApprovalOutcome.STALE)
                raise
            await uow.text_approvals.approve(organization, version)
            await uow.record(texts_approved(held, actor))
            await uow.commit()
        self.metrics.text_approval(ApprovalOutcome.APPROVED)

    async def withdraw(self, owner: Caller, organization: OrganizationId, actor: Actor) -> None:
        """The texts wait again. So do former ones that have a yes, if the organization takes them back. Nothing happens when none have.
        Raises `NotFound` and `Forbidden`.
        """
        async with self.unit_of_work() as uow:
            held = await self._held(uow, owner, organization)
            if held.approved_version is not None:
                await uow.text_approvals.approve(organization, None)
                await uow.record(approval_withdrawn(held, actor))
                await uow.commit()
        if held.approved_version is not None:
            self.metrics.text_approval(ApprovalOutcome.WITHDRAWN)

    async def rules(self) -> ApprovalRules:
        return await self.lookup.rules()

    async def set_rules(self, owner: Caller, rules: ApprovalRules, actor: Actor) -> ApprovalRules:
        """Raises `Forbidden`."""
        async with self.unit_of_work() as uow:
            await hold_office(uow, owner)
            before = await uow.text_approvals.rules()
            if before != rules:
                await uow.text_approvals.set_rules(rules)
                await uow.record(rules_changed(before, rules, actor))
                await uow.commit()
        return rules

    async def _held(self, uow: UnitOfWork, owner: Caller, organization: OrganizationId) -> OrganizationTexts:
        await hold_office(uow, owner)
        return found(await uow.text_approvals.hold(organization), _TEXT_APPROVAL_UNKNOWN)

    def _compared(self, one: OrganizationTexts) -> ComparedTexts:
        english = self.shipped.written(DEFAULT)
        ours = {
            language.value: self.shipped.written(language) for language in {Language.of(text.language) for text in one.texts} if language
        }
        return ComparedTexts(
            one,
            [ComparedText(text.language, text.key, ours.get(text.language, english).get(text.key, ""), text.text) for text in one.texts],
        )
