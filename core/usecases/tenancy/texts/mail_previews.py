"""Mails of an organization or of the installation, for those who look after its texts: shown, or sent to themselves."""

from core.domain.branding import POSTERN, Branding
from core.domain.errors import BadRequest
from core.domain.identity.callers import Caller
from core.domain.identity.links import Links
from core.domain.languages import Language
from core.domain.mail import Mail
from core.domain.tenancy.mail_servers import OrganizationMail
from core.domain.tenancy.members import Member
from core.domain.tenancy.texts.mail_previews import require_mail, values_of
from core.frozen import Frozen, replace
from ports.branding import Brandings
from ports.clock import Clock
from ports.mail_templates import MailTemplates
from ports.unit_of_work import UnitOfWorkFactory


class MailPreviews(Frozen):
    unit_of_work: UnitOfWorkFactory
    brandings: Brandings
    templates: MailTemplates
    links: Links
    clock: Clock

    async def branding(self, member: Member) -> Branding:
        """What pages and mails of the organization wear. Of one that is not active they wear ours. They can be looked at in every language,
        also before the organization speaks it.
        """
        return replace(await self.brandings.find(member.organization_slug) or POSTERN, languages=())

    def show(self, reader: Caller, name: str, language: Language, branding: Branding) -> Mail:
        """The mail to the reader, with own texts whether anybody has said yes to them or not. Raises `NotFound`."""
        to = reader.email.address
        values = values_of(require_mail(name), to, self.links.frontend_url, self.clock.now())
        return self.templates.mail(name, to, account=None, language=language, branding=branding, carries_own_texts=True, **values)

    async def send(self, member: Member, name: str, language: Language) -> str:
        """Sends the mail to the caller, as the organization's mails are sent, and to nobody else. Returns the address. Raises `NotFound`,
        and `BadRequest` when nobody has verified the address.
        """
        require_mail(name)
        if not member.caller.email_is_verified:
            raise BadRequest("Verify your e-mail address first", words="own_address_unverified")
        mail = self.show(member.caller, name, language, await self.branding(member))
        async with self.unit_of_work() as uow:
            await uow.jobs.add(OrganizationMail(mail, member.organization).as_job())
            await uow.commit()
        return mail.to
