"""Domains: set, proved and removed by members who may; looked at again every week."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from core.domain.branding import Branding
from core.domain.errors import NotFound
from core.domain.identifiers import DomainId
from core.domain.outbound.destinations import Destination
from core.domain.record.events import Actor
from core.domain.tenancy.domains import (
    LEASE,
    LONGEST_PROOF,
    MOST_MISSES,
    RECHECKED_AFTER_MISS,
    RECHECKED_EVERY,
    TIMEOUT,
    Domain,
    domain_deleted,
    domain_lost,
    domain_name,
    domain_set,
    domain_verified,
)
from core.domain.tenancy.mail_servers import OrganizationMail
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.usecases.tenancy.rights import hold_rights
from ports.clock import Clock
from ports.ids import Ids
from ports.mail_templates import MailTemplates
from ports.metrics import Metrics
from ports.outbound import Outbound, OutboundFailed, TextRecords
from ports.secrets import Secrets
from ports.tenancy.domains import DomainLookup
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Verification:
    verified: bool
    message: str


class Domains:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        lookup: DomainLookup,
        outbound: Outbound,
        records: TextRecords,
        *,
        templates: MailTemplates,
        metrics: Metrics,
        clock: Clock,
        ids: Ids,
        secrets: Secrets,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._outbound = outbound
        self._records = records
        self._templates = templates
        self._metrics = metrics
        self._clock = clock
        self._ids = ids
        self._secrets = secrets

    async def get(self, member: Member) -> Domain | None:
        return await self._lookup.get(member.organization)

    async def set(self, member: Member, actor: Actor, name: str) -> Domain:
        """In place of the one before, which is no longer verified then. The same one again stays as it is. Raises `BadRequest`, and
        `Forbidden` when the caller may no longer change it.
        """
        domain = Domain(
            id=DomainId(self._ids.new()),
            organization=member.organization,
            name=domain_name(name),
            token=self._secrets.token().reveal(),
            created_at=self._clock.now(),
        )
        async with self._unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            before = await uow.domains.find(member.organization)
            if before is not None and before.name == domain.name:
                return before
            await uow.domains.save(domain)
            if before is not None and before.is_verified:
                await uow.record(domain_deleted(before, actor))
            await uow.record(domain_set(domain, actor))
            await uow.commit()
        return domain

    async def verify(self, member: Member, actor: Actor) -> Verification:
        """Looks for the proof. One that is verified stays so, whatever is found. Raises `NotFound` when no domain is set."""
        domain = await self._lookup.get(member.organization)
        if domain is None:
            raise NotFound("No domain is set")
        found = await self._is_proved(domain)
        self._metrics.domain_checked("found" if found else "missed")
        if not found:
            if domain.is_verified:
                return Verification(True, "The domain is verified, but its proof was not found just now. Leave it published.")
            return Verification(False, f"The proof was not found: neither as a TXT record of {domain.record}, nor at {domain.file_url}")
        now = self._clock.now()
        async with self._unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            if not await uow.domains.verify(domain, now, now + RECHECKED_EVERY):
                return Verification(False, "Another organization has verified this domain, or you have changed yours meanwhile")
            if not domain.is_verified:
                await uow.record(domain_verified(domain, actor))
            await uow.commit()
        return Verification(True, "The domain is verified. Leave the proof published: it is looked at every week.")

    async def remove(self, member: Member, actor: Actor) -> None:
        """Nothing happens when none is set. Raises `Forbidden` when the caller may no longer change it."""
        async with self._unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            removed = await uow.domains.remove(member.organization)
            if removed is not None:
                await uow.record(domain_deleted(removed, actor))
                await uow.commit()

    async def claim_due(self, limit: int) -> Sequence[Domain]:
        """For the domain checker, which looks at each of them."""
        now = self._clock.now()
        return await self._lookup.claim_due(now, now + LEASE, limit)

    async def recheck(self, domain: Domain) -> None:
        """Looks for the proof of a verified domain, and tells the owners when it is gone."""
        found = await self._is_proved(domain)
        self._metrics.domain_checked("found" if found else "missed")
        now = self._clock.now()
        async with self._unit_of_work() as uow:
            if found:
                await uow.domains.seen(domain.id, now, now + RECHECKED_EVERY)
                await uow.commit()
                return
            missed = await uow.domains.missed(domain.id, now, now + RECHECKED_AFTER_MISS, MOST_MISSES)
            if missed is None:
                return
            if not missed.is_verified:
                await uow.record(domain_lost(missed))
            if missed.misses == 1:
                for owner in await uow.domains.owners(missed.organization):
                    mail = self._templates.mail(
                        "domain_proof_missing",
                        owner.email.address,
                        language=owner.language,
                        branding=Branding(owner.organization_name),
                        domain=missed.name,
                        record=missed.record,
                        when=now,
                    )
                    await uow.jobs.add(OrganizationMail(mail, missed.organization).as_job())
            await uow.commit()
        log.warning("domain_proof_missing", domain=missed.name, organization=str(missed.organization), verified=missed.is_verified)

    async def _is_proved(self, domain: Domain) -> bool:
        if any(map(domain.is_proved_by, await self._records.texts(domain.record))):
            return True
        for place in domain.files:
            if await self._is_proved_at(domain, place):
                return True
        return False

    async def _is_proved_at(self, domain: Domain, place: Destination) -> bool:
        try:
            answer = await self._outbound.get(place, TIMEOUT, most=LONGEST_PROOF)
        except OutboundFailed:
            return False
        return answer.status == 200 and domain.is_proved_by(answer.body.decode("ascii", "replace"))
