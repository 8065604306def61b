"""Mails to the owners of an organization: about something that will stop working, or that they want to hear of."""

from collections.abc import Sequence
from datetime import datetime

from ports.mail_templates import MailTemplates
from ports.tenancy.webhooks import Owner
from ports.unit_of_work import UnitOfWork


async def tell_owners(
    uow: UnitOfWork, templates: MailTemplates, owners: Sequence[Owner], template: str, **values: str | bool | datetime | None
) -> None:
    for owner in owners:
        mail = templates.mail(
            template,
            owner.email.address,
            account=owner.user,
            language=owner.language,
            branding=owner.branding,
            carries_own_texts=owner.is_own,
            **values,
        )
        await uow.jobs.add(mail.as_job())
