"""Account mails: what somebody asked for by naming an address is looked up, and mailed when there is an account that may have it."""

from core.domain.account_mails import AccountMail
from core.domain.accounts import ACCOUNT_MAILS
from core.domain.branding import POSTERN
from core.domain.email import Email
from core.domain.links import Links
from core.domain.mailed_tokens import mailed_token
from ports.branding import Brandings
from ports.clock import Clock
from ports.mail_templates import MailTemplates
from ports.rate_limits import SharedBuckets
from ports.secrets import Secrets
from ports.unit_of_work import UnitOfWorkFactory


class AccountMails:
    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        brandings: Brandings,
        templates: MailTemplates,
        links: Links,
        buckets: SharedBuckets,
        clock: Clock,
        secrets: Secrets,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._brandings = brandings
        self._templates = templates
        self._links = links
        self._buckets = buckets
        self._clock = clock
        self._secrets = secrets

    async def send(self, kind: AccountMail, email: Email, organization: str) -> bool:
        """Issue a link and queue its mail, in one transaction. False when nobody is to be mailed: no account, none that may have it, or too
        many of this kind already. Repeated, it mails once more, and the last link is the one that works.
        """
        async with self._unit_of_work() as uow:
            account = await uow.accounts.find(email)
        if account is None or not kind.is_due(account):
            return False
        if await self._buckets.take(ACCOUNT_MAILS, f"{kind}:{account.id}") > 0:
            return False
        branding = await self._brandings.find(organization) if organization else None
        token = self._secrets.mailed_token()
        # To the address on record, which may be written differently from the one that was named.
        link = self._links.redeeming(kind.purpose, token)
        mail = self._templates.mail(kind.value, account.email.address, branding=branding or POSTERN, link=link)
        async with self._unit_of_work() as uow:
            await uow.accounts.hold(account.id)
            await uow.mailed_tokens.issue(mailed_token(token, kind.purpose, account.id, account.email, self._clock.now()))
            await uow.jobs.add(mail.as_job())
            await uow.commit()
        return True
