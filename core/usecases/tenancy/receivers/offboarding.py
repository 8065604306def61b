"""The deadline of an organization for offboarding, and the look at those who miss it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

import structlog

from core.domain.identifiers import AuditEntryId, OffboardingDeadlineId, OrganizationId, UserId
from core.domain.record.entry_receivers import EntryReceipts
from core.domain.record.events import Actor
from core.domain.record.evidence import EvidenceScope, OffboardingEvidence, evidence_claims, evidence_made
from core.domain.requests import checked
from core.domain.tenancy.members import Member
from core.domain.tenancy.offboarding import (
    CHECKS,
    MAILS_APART,
    OffboardingDeadline,
    OffboardingMinutes,
    WatchedAct,
    judged,
    offboarding_deadline_removed,
    offboarding_deadline_set,
    offboarding_late,
)
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace, values_of
from core.usecases.record import EntryReceivers
from core.usecases.tenancy.ownerships import tell_owners
from core.usecases.tenancy.rights import hold_rights
from ports.crypto import HeadSigner
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.system import System
from ports.tenancy.organizations import OffboardingDeadlineStore
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()

# So many acts are judged in one transaction.
AT_ONCE: Final = 20
# So many organizations are looked at in one statement, and as many get a mail.
ORGANIZATIONS_AT_ONCE: Final = 100


class OffboardingDeadlines(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: OffboardingDeadlineStore
    system: System

    async def get(self, member: Member) -> OffboardingDeadline | None:
        return await self.lookup.find(member.organization)

    async def set(self, member: Member, actor: Actor, wanted: OffboardingMinutes) -> OffboardingDeadline:
        """Set all deadlines, in place of earlier ones. They are for acts from now on. Raises `BadRequest`, and `Forbidden` when the caller
        may no longer change the settings.
        """
        minutes = checked(values_of(wanted), CHECKS)
        wanted.require_any()
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            before = await uow.offboarding_deadlines.find(member.organization)
            if before is None:
                new = OffboardingDeadlineId(self.system.ids.new())
                after = OffboardingDeadline(id=new, organization=member.organization, **minutes, created_at=now, updated_at=now)
            else:
                after = replace(before, **minutes)
                if after == before:
                    return before
                after = replace(after, updated_at=now)
            await uow.offboarding_deadlines.save(after)
            await uow.record(offboarding_deadline_set(after, actor))
            await uow.commit()
        return after

    async def remove(self, member: Member, actor: Actor) -> None:
        """Nothing is late from now on, and nothing needs attention for having been late. Nothing happens when there is no deadline. Raises
        `Forbidden` when the caller may no longer change the settings.
        """
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            removed = await uow.offboarding_deadlines.remove(member.organization)
            if removed is not None:
                await uow.record(offboarding_deadline_removed(removed, actor))
                await uow.commit()


class LateReceivers(Frozen):
    """Looks at organizations that have a deadline, and at no other."""

    unit_of_work: UnitOfWorkFactory
    lookup: OffboardingDeadlineStore
    receivers: EntryReceivers
    templates: MailTemplates
    metrics: Metrics
    system: System
    base_url: str

    async def look(self) -> int:
        """Returns how many receivers are late since the last look. Several processes may look at once."""
        late, entered = 0, 0
        # One time for the whole look: what it has looked at is not due again before the next, so that it ends however much there is.
        began = self.system.clock.now()
        while found := await self.lookup.enter(began, ORGANIZATIONS_AT_ONCE):
            entered += found
        if not entered:
            # No organization has a deadline, or another process is looking.
            return 0
        while watched := await self.lookup.claim(began, AT_ONCE):
            of_each: dict[OrganizationId, list[WatchedAct]] = defaultdict(list)
            for one in watched:
                of_each[one.organization].append(one)
            for organization, acts in of_each.items():
                receipts = await self.receivers.open_of_entries(organization, [one.entry for one in acts])
                late += await self._judge(organization, acts, receipts)
        await self._mail()
        if late:
            self.metrics.offboarding_late(late)
            log.warning("offboarding_late", receivers=late)
        return late

    async def _judge(self, organization: OrganizationId, acts: Sequence[WatchedAct], receipts: Mapping[AuditEntryId, EntryReceipts]) -> int:
        now, late = self.system.clock.now(), 0
        async with self.unit_of_work() as uow:
            for one in acts:
                found = receipts.get(one.entry)
                judgment = judged(one, found, now)
                if not await uow.offboarding_deadlines.judge(one, judgment):
                    # The deadline was removed, or another process was quicker.
                    continue
                if found is not None:
                    for receiver in judgment.late:
                        await uow.record(offboarding_late(one, found, receiver))
                        late += 1
            if late:
                await uow.offboarding_deadlines.add_late(organization, late)
            await uow.commit()
        return late

    async def _mail(self) -> None:
        """Tells owners how many were late since the last mail. An organization has a mail an hour at most."""
        now = self.system.clock.now()
        while True:
            async with self.unit_of_work() as uow:
                told = await uow.offboarding_deadlines.take_late(now, now - MAILS_APART, ORGANIZATIONS_AT_ONCE)
                for one in told:
                    owners = await uow.offboarding_deadlines.owners(one.organization)
                    link = f"{self.base_url}/ui/o/{one.slug}/audit-log?action=offboarding.late"
                    await tell_owners(uow, self.templates, owners, "offboarding_late", receivers=str(one.late), link=link)
                await uow.commit()
            if len(told) < ORGANIZATIONS_AT_ONCE:
                return


class OffboardingEvidences(Frozen):
    """Makes files that say who has heard of the end of a person's access. The caller may read the log."""

    unit_of_work: UnitOfWorkFactory
    receivers: EntryReceivers
    heads: HeadSigner
    system: System
    issuer: str

    async def make(self, member: Member, person: UserId, actor: Actor) -> OffboardingEvidence:
        """For a person whom the log does not name, the file has no entries. Raises `Forbidden` when the caller may no longer read it."""
        entries = await self.receivers.of_person(member.organization, person)
        scope = EvidenceScope(
            id=self.system.ids.new(),
            issuer=self.issuer,
            organization=member.organization,
            person=person,
            maker=member.user,
            made_at=self.system.clock.now(),
        )
        file = await self.heads.sign_evidence(evidence_claims(scope, entries))
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.AUDIT_LOGS_VIEW)
            await uow.record(evidence_made(scope, len(entries), sha256(file.encode()).hexdigest(), actor))
            await uow.commit()
        return OffboardingEvidence(id=scope.id, file=file, entries=len(entries))
