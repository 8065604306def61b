"""Proofs of domains: Postern looks for a proof in places where only the owner of the domain can publish it."""

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Final, Generic, TypeVar

import structlog

from core.domain.outbound.destinations import OutboundDestination
from core.domain.record.events import Actor, Event
from core.domain.tenancy.domains import LONGEST_PROOF, MOST_MISSES, RECHECKED_AFTER_MISS, RECHECKED_EVERY, TIMEOUT, Domain
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.tenancy.rights import hold_rights
from core.usecases.tenancy.texts.organization_mails import organization_mail
from core.usecases.tenancy.texts.proved_links import follow_proof
from ports.clock import Clock
from ports.mail_templates import MailTemplates
from ports.metrics import Metrics
from ports.outbound import Outbound, OutboundFailed, TextRecords
from ports.tenancy.domains import ProofStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

Proved = TypeVar("Proved", bound=Domain)

_MISSING: Final = "domain_proof_missing"


class _Sight(StrEnum):
    FOUND = "found"
    MISSED = "missed"
    UNKNOWN = "unknown"
    """No name server answered, so nobody knows whether the proof is there."""


class Verification(Frozen):
    verified: bool
    message: str


class Use(Frozen, Generic[Proved]):
    """The purpose of proved domains. `lost_mail` names the mail that tells the owners what has ended with the proof; empty for no mail."""

    store: Callable[[UnitOfWork], ProofStore[Proved]]
    verified: Callable[[Proved, Actor], Event]
    lost: Callable[[Proved], Event]
    lost_mail: str = ""


class DomainProofs(Frozen):
    unit_of_work: UnitOfWorkFactory
    outbound: Outbound
    records: TextRecords
    templates: MailTemplates
    metrics: Metrics
    clock: Clock
    text_hosts: Collection[str] = ()
    """The domains to which own texts may link without a proof, as the operator says."""

    async def verify(self, use: Use[Proved], member: Member, actor: Actor, domain: Proved) -> Verification:
        """Looks for the proof. A verified domain stays verified, even if the proof is not found."""
        sight = await self._look(domain)
        if sight is not _Sight.FOUND:
            if domain.is_verified:
                return Verification(True, "The domain is verified, but its proof was not found just now. Leave it published.")
            if sight is _Sight.UNKNOWN:
                return Verification(False, f"No name server answered for {domain.record}, and there is no proof at {domain.file_url}")
            return Verification(False, f"The proof was not found: neither as a TXT record of {domain.record}, nor at {domain.file_url}")
        now = self.clock.now()
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            verified = await use.store(uow).verify(domain, now, now + RECHECKED_EVERY)
            if verified is None:
                return Verification(False, "Another organization has verified this domain, or you have changed yours meanwhile")
            if verified.is_new:
                await uow.record(use.verified(domain, actor))
                await follow_proof(uow, domain.organization, domain.name, self.text_hosts)
            await uow.commit()
        return Verification(True, "The domain is verified. Leave the proof published: it is looked at every week.")

    async def recheck(self, use: Use[Proved], domain: Proved) -> None:
        """Looks for the proof of a verified domain, and tells the owners when the proof is gone. If no name server answers, Postern looks
        again when the lease of this check has run out: the installation's own name servers may be down, and then the check of every domain
        fails.
        """
        sight = await self._look(domain)
        if sight is _Sight.UNKNOWN:
            log.warning("domain_proof_unknown", domain=domain.name, organization=str(domain.organization))
            return
        now = self.clock.now()
        async with self.unit_of_work() as uow:
            store = use.store(uow)
            if sight is _Sight.FOUND:
                await store.seen(domain.id, now, now + RECHECKED_EVERY)
                await uow.commit()
                return
            # What follows from a lost proof changes the organization, which comes first.
            await uow.organizations.hold(domain.organization)
            missed = await store.missed(domain, now, now + RECHECKED_AFTER_MISS, MOST_MISSES)
            if missed is None:
                return
            if not missed.is_verified:
                await uow.record(use.lost(missed))
                await follow_proof(uow, missed.organization, missed.name, self.text_hosts)
            mail = _MISSING if missed.misses == 1 else "" if missed.is_verified else use.lost_mail
            if mail:
                await self._tell_owners(uow, store, missed, mail)
            await uow.commit()
        log.warning("domain_proof_missing", domain=missed.name, organization=str(missed.organization), verified=missed.is_verified)

    async def _tell_owners(self, uow: UnitOfWork, store: ProofStore[Proved], domain: Proved, template: str) -> None:
        for owner in await store.owners(domain.organization):
            mail = organization_mail(
                self.templates,
                domain.organization,
                template,
                owner.email.address,
                account=owner.user,
                language=owner.language,
                branding=owner.branding,
                is_own=owner.is_own,
                domain=domain.name,
                record=domain.record,
                when=self.clock.now(),
            )
            await uow.jobs.add(mail.as_job())

    async def is_published(self, domain: Domain) -> bool:
        """Whether the proof is there at this moment, for a domain that nobody has stored as the organization's yet."""
        return await self._look(domain) is _Sight.FOUND

    async def _look(self, domain: Domain) -> _Sight:
        sight = await self._sight(domain)
        self.metrics.domain_checked(sight)
        return sight

    async def _sight(self, domain: Domain) -> _Sight:
        texts = await self.records.texts(domain.record)
        if any(map(domain.is_proved_by, texts or ())):
            return _Sight.FOUND
        for place in domain.files:
            if await self._is_proved_at(domain, place):
                return _Sight.FOUND
        return _Sight.UNKNOWN if texts is None else _Sight.MISSED

    async def _is_proved_at(self, domain: Domain, place: OutboundDestination) -> bool:
        try:
            answer = await self.outbound.get(place, TIMEOUT, most=LONGEST_PROOF)
        except OutboundFailed:
            return False
        return answer.status == 200 and domain.is_proved_by(answer.body.decode("ascii", "replace"))
