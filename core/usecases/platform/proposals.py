"""Proposals of configuration documents: programs and people make them, an owner applies one."""

from collections.abc import Sequence

from core.domain.errors import Conflict, Forbidden, found
from core.domain.identifiers import ProposalId
from core.domain.platform.configuration.proposals import (
    LIFETIME,
    PROPOSES,
    Proposal,
    ProposalOvertaken,
    proposal_applied,
    proposal_created,
    proposal_deleted,
    require_proposals_room,
    sealing_context,
)
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from core.usecases.tenancy.rights import acted_as_owner, hold_members, require_capability
from ports.encryption import KeyRing
from ports.platform.proposals import ProposalStore
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

NO_SUCH_PROPOSAL = "There is no such proposal: it was withdrawn, its day is over, or who made it may do so no more"


class OpenedProposal(Frozen):
    proposal: Proposal
    document: bytes | None
    """None once the proposal is applied."""


class Proposals(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ProposalStore
    keyring: KeyRing
    system: System

    async def create(self, member: Member, document: bytes, digest: str, plan: str, actor: Actor) -> Proposal:
        """Keeps the document for a day, sealed. `digest` is that of the document, `plan` that of the plan. Raises `Forbidden` when the
        caller may no longer change the settings, and `Conflict` when too many wait.
        """
        now = self.system.clock.now()
        proposal = Proposal(
            id=ProposalId(self.system.ids.new()),
            organization=member.organization,
            document=digest,
            plan=plan,
            created_by=member.responsible,
            key=None if member.key is None else member.key.key,
            proposed_by=member.caller.email.address if member.key is None else member.key.name,
            created_at=now,
            expires_at=now + LIFETIME,
        )
        sealed = self.keyring.seal(document, sealing_context(proposal.id))
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            require_capability(acting, PROPOSES)
            require_proposals_room(await uow.proposals.waiting(member.organization, now))
            await uow.proposals.add(proposal, sealed)
            await uow.record(proposal_created(proposal, actor))
            await uow.commit()
        return proposal

    async def list(self, member: Member) -> Sequence[Proposal]:
        """The newest first."""
        return await self.lookup.list(member.organization, self.system.clock.now())

    async def get(self, member: Member, proposal: ProposalId) -> OpenedProposal:
        """Raises `NotFound`."""
        known = found(await self.lookup.find(member.organization, proposal, self.system.clock.now()), NO_SUCH_PROPOSAL)
        sealed = known.sealed_document
        return OpenedProposal(known.proposal, None if sealed is None else self.keyring.open(sealed, sealing_context(proposal)))

    async def take(self, member: Member, proposal: ProposalId, plan: str, actor: Actor) -> None:
        """Uses the proposal up, once, for an owner who goes on to apply its document. Raises `NotFound`, `Forbidden` for everybody but an
        owner, `ProposalOvertaken` when `plan` is not the proposed one, and `Conflict` for a proposal that was applied. Whoever made it may
        still propose. A new owner confirms the ownership by it.
        """
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            if not acting.is_owner:
                raise Forbidden("Only an owner applies a proposal", words="rights_missing")
            known = found(await uow.proposals.find(member.organization, proposal, now), NO_SUCH_PROPOSAL).proposal
            if not await uow.proposals.take(member.organization, proposal, now):
                raise Conflict("This proposal was applied already", words="proposal_applied")
            if known.plan != plan:
                raise ProposalOvertaken
            await acted_as_owner(uow, acting, now)
            await uow.record(proposal_applied(known, actor))
            await uow.commit()

    async def delete(self, member: Member, proposal: ProposalId, actor: Actor) -> None:
        """Withdraw a proposal. Raises `NotFound`, and `Forbidden`."""
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            require_capability(acting, PROPOSES)
            known = found(await uow.proposals.find(member.organization, proposal, self.system.clock.now()), NO_SUCH_PROPOSAL).proposal
            await uow.proposals.remove(member.organization, proposal)
            await uow.record(proposal_deleted(known, actor))
            await uow.commit()
