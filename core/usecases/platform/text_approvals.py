"""Platform owners say yes to the own texts of organizations, and say where a yes is needed."""

from collections.abc import Sequence

from core.domain.errors import Conflict, found
from core.domain.identifiers import OrganizationId
from core.domain.identity.callers import Caller
from core.domain.languages import DEFAULT, Language
from core.domain.platform.text_approvals import (
    MOST_LISTED,
    MOST_LISTED_TEXTS,
    ApprovalOutcome,
    ComparedText,
    ComparedTexts,
    OrganizationTexts,
    approval_withdrawn,
    require_seen,
    rules_changed,
    texts_approved,
)
from core.domain.record.events import Actor
from core.domain.texts.own_texts import ApprovalRules
from core.frozen import Frozen
from core.usecases.tenancy.rights import hold_office
from ports.metrics import Metrics
from ports.platform.text_approvals import TextApprovalStore
from ports.texts import ShippedWords
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_UNKNOWN = "There is no such organization with texts of its own"


class TextApprovals(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: TextApprovalStore
    shipped: ShippedWords
    metrics: Metrics

    async def list(self) -> Sequence[ComparedTexts]:
        """Those that wait come first. One that is not listed is, once somebody has said yes to others."""
        return [self._compared(one) for one in await self.lookup.list(MOST_LISTED, MOST_LISTED_TEXTS)]

    async def approve(self, owner: Caller, organization: OrganizationId, version: str, actor: Actor) -> None:
        """Raises `NotFound`, `Conflict` when the texts are not those that the owner has seen, `BadRequest`, and `Forbidden`."""
        async with self.unit_of_work() as uow:
            held = await self._held(uow, owner, organization)
            found(held.version or None, _UNKNOWN)
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
        return found(await uow.text_approvals.hold(organization), _UNKNOWN)

    def _compared(self, one: OrganizationTexts) -> ComparedTexts:
        english = self.shipped.written(DEFAULT)
        ours = {
            language.value: self.shipped.written(language) for language in {Language.of(text.language) for text in one.texts} if language
        }
        return ComparedTexts(
            one,
            [ComparedText(text.language, text.key, ours.get(text.language, english).get(text.key, ""), text.text) for text in one.texts],
        )
