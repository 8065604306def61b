"""Reads what is configured for configuration files, and the proposals that owners apply."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from core.domain.errors import Conflict, Forbidden, found
from core.domain.identifiers import ManagementKeyId, OrganizationId, ProposalId, UserId
from core.domain.platform.configuration.objects import ManagedMark, ObjectPlace, digest_of
from core.domain.platform.configuration.planning import (
    PROPOSAL_LIFETIME,
    PROPOSES,
    Change,
    PlannedAction,
    Present,
    Proposal,
    ProposalOvertaken,
    document_planned,
    proposal_applied,
    proposal_context,
    proposal_created,
    proposal_deleted,
    require_proposals_room,
)
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from core.usecases.tenancy.rights import acted_as_owner, hold_members, require_capability
from ports.crypto import KeyRing
from ports.platform import ConfigurationReader, ManagedMarks, ProposalStore, StoredObject
from ports.system import Clock, System
from ports.unit_of_work import UnitOfWorkFactory

LATELY: Final = timedelta(days=7)


class Loss(Frozen):
    """Something that a change ends."""

    place: ObjectPlace
    what: str
    """Empty for the object itself. Otherwise the value that goes: a redirect URI."""
    people: int
    """How many people use or hold it. Of a redirect URI: how many signed in to its service in the last seven days."""


class Configurations(Frozen):
    reader: ConfigurationReader
    marks: ManagedMarks
    unit_of_work: UnitOfWorkFactory
    clock: Clock

    async def slugs(self) -> Sequence[str]:
        return await self.reader.slugs()

    async def stored(self, kinds: Sequence[str], organizations: Collection[str] | None) -> Sequence[StoredObject]:
        """The objects of these kinds, in these organizations or in all."""
        return [one for kind in kinds for one in await self.reader.objects(kind, organizations)]

    def present(self, stored: Sequence[StoredObject]) -> Mapping[ObjectPlace, Present]:
        """The objects as a plan knows them."""
        return {
            one.place: Present(
                fields=one.fields,
                id=one.id,
                people=one.people,
                is_directorys=one.is_directorys,
            )
            for one in stored
        }

    async def ids(self, kind: str, organization: str, slugs: Collection[str]) -> Mapping[str, UUID]:
        """The ids of those services or teams of the organization that have these slugs."""
        return await self.reader.ids(kind, organization, slugs) if slugs else {}

    async def losses(self, changes: Sequence[Change]) -> Sequence[Loss]:
        """What the changes would end, and for how many people."""
        found = []
        for change in changes:
            if change.act is PlannedAction.END:
                found.append(Loss(change.place, "", change.people))
            for gone in removed_addresses(change):
                since = self.clock.now() - LATELY
                found.append(Loss(change.place, gone, await self.reader.lately(change.place.organization, change.place.name, since)))
        return found

    async def note_plan(self, organization: OrganizationId, secrets: Sequence[str], actor: Actor) -> None:
        """Records that somebody planned a document with secrets, by the places of these in the document."""
        async with self.unit_of_work() as uow:
            await uow.record(document_planned(organization, secrets, actor))
            await uow.commit()

    async def mark(
        self,
        organization: str,
        kinds: Sequence[str],
        named: Mapping[ObjectPlace, Sequence[str]],
        present: Mapping[ObjectPlace, Present],
        document: str,
        *,
        person: UserId | None,
        key: ManagementKeyId | None,
    ) -> None:
        """From now on, the document manages these objects of the organization, and no others of these kinds there. `named` has the fields
        that it sets.
        """
        now = self.clock.now()
        marks = [
            ManagedMark(
                place=place,
                id=present[place].id,
                document=document,
                fields=digest_of({name: present[place].fields.get(name) for name in names}),
                named=tuple(names),
                at=now,
                by="",
            )
            for place, names in named.items()
            if place in present and place.kind in kinds
        ]
        await self.marks.replace(organization, kinds, marks, person, key)

    async def managed(self, organization: str, service: str, kind: str, id: str) -> ManagedMark | None:  # noqa: A002 - the noun's own word
        """None if no document manages the object."""
        return await self.marks.find(organization, service, kind, id)

    async def all_managed(self, organization: str) -> Sequence[ManagedMark]:
        """The marks of an organization, or of the installation for an empty slug."""
        return await self.marks.list(organization)


def removed_addresses(change: Change) -> Sequence[str]:
    """The redirect URIs that a change of a service takes away."""
    for one in change.fields if change.act is PlannedAction.CHANGE else ():
        if one.name == "redirect_uris" and isinstance(one.before, Sequence) and isinstance(one.after, Sequence):
            kept = set(map(str, one.after))
            return [str(uri) for uri in one.before if str(uri) not in kept]
    return ()


NO_SUCH_PROPOSAL = "Proposal not found: it was withdrawn or has expired, or its author no longer has the permission"


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
            expires_at=now + PROPOSAL_LIFETIME,
        )
        sealed = self.keyring.seal(document, proposal_context(proposal.id))
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
        return OpenedProposal(known.proposal, None if sealed is None else self.keyring.open(sealed, proposal_context(proposal)))

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
