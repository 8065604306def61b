"""Domains: set, proved and removed by members with permission, and checked again every week."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import found
from core.domain.identifiers import DomainId
from core.domain.record.events import Actor
from core.domain.tenancy.domains import LEASE, Domain, domain_deleted, domain_lost, domain_name, domain_set, domain_verified
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.tenancy.domains.domain_proofs import DomainProofs, Use, Verification
from core.usecases.tenancy.rights import hold_rights
from core.usecases.tenancy.texts.proved_links import follow_proof
from ports.system import System
from ports.tenancy.domains import DomainStore
from ports.unit_of_work import UnitOfWorkFactory

_USE: Final[Use[Domain]] = Use(lambda uow: uow.domains, domain_verified, domain_lost)


class Domains(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: DomainStore
    proofs: DomainProofs
    system: System

    async def get(self, member: Member) -> Domain | None:
        return await self.lookup.find(member.organization)

    async def set(self, member: Member, actor: Actor, name: str) -> Domain:
        """Sets the domain in place of the earlier one, whose proof then ends. Setting the same domain again changes nothing. Raises
        `BadRequest`, and `Forbidden` when the caller may no longer change it.
        """
        domain = Domain(
            id=DomainId(self.system.ids.new()),
            organization=member.organization,
            name=domain_name(name),
            token=self.system.secrets.token().reveal(),
            created_at=self.system.clock.now(),
        )
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            before = await uow.domains.find(member.organization)
            if before is not None and before.name == domain.name:
                return before
            await uow.domains.save(domain)
            if before is not None and before.is_verified:
                await uow.record(domain_deleted(before, actor))
                await follow_proof(uow, member.organization, before.name, self.proofs.text_hosts)
            await uow.record(domain_set(domain, actor))
            await uow.commit()
        return domain

    async def verify(self, member: Member, actor: Actor) -> Verification:
        """Looks for the proof. A verified domain stays verified if the proof is missing. Raises `NotFound` when no domain is set."""
        domain = found(await self.lookup.find(member.organization), "No domain is set")
        return await self.proofs.verify(_USE, member, actor, domain)

    async def remove(self, member: Member, actor: Actor) -> None:
        """Removes the domain, if one is set. Raises `Forbidden` when the caller may no longer change it."""
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            removed = await uow.domains.remove(member.organization)
            if removed is not None:
                await uow.record(domain_deleted(removed, actor))
                await follow_proof(uow, member.organization, removed.name, self.proofs.text_hosts)
                await uow.commit()

    async def claim_due(self, limit: int) -> Sequence[Domain]:
        """For the domain checker, which looks at each of them."""
        now = self.system.clock.now()
        return await self.lookup.claim_due(now, now + LEASE, limit)

    async def recheck(self, domain: Domain) -> None:
        """Looks for the proof of a verified domain, and tells the owners when it is gone."""
        await self.proofs.recheck(_USE, domain)
