"""Mails owners about a sign-in, because a rule for risk says so."""

from core.domain.identity.risk_policies.owner_notices import OWNER_NOTICES, OWNER_NOTICES_OF_RULE, OwnerNotice, owners_notified
from core.frozen import Frozen
from core.usecases.identity.devices import Devices
from core.usecases.tenancy.owner_mails import tell_owners
from ports.mail_templates import MailTemplates
from ports.rate_limits import SharedBuckets
from ports.tenancy.risk.risk_policies import RiskPolicyStore
from ports.unit_of_work import UnitOfWorkFactory


class OwnerNotices(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: RiskPolicyStore
    devices: Devices
    buckets: SharedBuckets
    templates: MailTemplates

    async def send(self, notice: OwnerNotice) -> int:
        """Returns the number of owners who get a mail: none when they have heard of this person by this rule within the hour, when the
        person or the sign-in has been forgotten meanwhile, or when nobody owns the organization.
        """
        noticed = await self.lookup.noticed(notice.login)
        owners = await self.lookup.owners(notice.organization)
        if noticed is None or not owners:
            return 0
        if await self.buckets.take(OWNER_NOTICES, notice.key) > 0 or await self.buckets.take(OWNER_NOTICES_OF_RULE, notice.key_of_rule) > 0:
            return 0
        # What the browser calls itself: the name that the person has given the device is theirs, and no organization's.
        location, device = noticed.location, await self.devices.called(noticed.user_agent)
        async with self.unit_of_work() as uow:
            await tell_owners(
                uow,
                self.templates,
                owners,
                "risk_owner_notice",
                person=noticed.email.address,
                rule=notice.name,
                everywhere=notice.organization is None,
                when=noticed.at,
                address=noticed.address,
                device=device,
                location=None if location is None else ", ".join(filter(None, (location.city, location.country))),
            )
            await uow.record(owners_notified(notice, len(owners)))
            await uow.commit()
        return len(owners)
