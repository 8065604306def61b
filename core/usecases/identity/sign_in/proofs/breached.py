"""What a sign-in does with a right password that stands in a list of stolen ones."""

from core.domain.errors import Unauthorized
from core.domain.identity.account_mails import AccountMail, AskedMail
from core.domain.identity.devices import Client
from core.domain.identity.passwords.at_sign_in import BREACH_MAILS, AtSignIn, password_breached, strictest
from core.domain.identity.risk import Approach
from core.domain.identity.sign_in import NamedAccount
from core.domain.mail import Mail
from core.domain.secrets import Password
from core.frozen import Frozen
from ports.clock import Clock
from ports.mail_templates import MailTemplates
from ports.passwords import BreachedPasswords, CommonPasswords
from ports.rate_limits import SharedBuckets
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class PasswordBreached(Unauthorized):
    """The password is right, and opens nothing any more."""

    text = "The password stands in lists of stolen passwords: choose another by the link that was mailed to you"

    def __init__(self) -> None:
        super().__init__(words="password_breached_at_sign_in")


class KnownPasswords(Frozen):
    """The shipped list, and what the operator names besides."""

    common: CommonPasswords
    breached: BreachedPasswords

    async def contain(self, password: Password) -> bool:
        return self.common.contains(password) or await self.breached.contains(password)


class BreachesAtSignIn(Frozen):
    unit_of_work: UnitOfWorkFactory
    known: KnownPasswords
    templates: MailTemplates
    buckets: SharedBuckets
    clock: Clock
    rule: AtSignIn
    """The installation's."""

    async def judge(self, named: NamedAccount, password: Password) -> AtSignIn:
        """What this sign-in has to do. Called with a right password alone."""
        rule = self.rule if named.account.is_platform_owner else strictest(self.rule, named.breached_at_sign_in)
        if rule is AtSignIn.OFF or not await self.known.contain(password):
            return AtSignIn.OFF
        return rule

    async def ask_for_another(self, named: NamedAccount, client: Client) -> None:
        """Queues the mail with the link that "Forgot your password?" sends, and as seldom."""
        account, now = named.account, self.clock.now()
        asked = AskedMail(AccountMail.RESET, account.email, "", account.language or client.language, asked_at=now)
        async with self.unit_of_work() as uow:
            await uow.jobs.add(asked.as_job())
            await uow.record_in_every_log(password_breached(account.id, client.actor(account.id)), account.id)
            await uow.commit()

    async def mail(self, named: NamedAccount, approach: Approach) -> Mail | None:
        """The mail about it. None for a person who has heard of it within the month."""
        account, client, location = named.account, approach.client, approach.location
        if await self.buckets.take(BREACH_MAILS, str(account.id)) > 0:
            return None
        return self.templates.mail(
            "password_breached",
            account.email.address,
            account=account.id,
            language=account.language or client.language,
            when=self.clock.now(),
            address=client.address,
            device=approach.agent.name,
            location=None if location is None else ", ".join(filter(None, (location.city, location.country))),
        )

    async def tell(self, uow: UnitOfWork, named: NamedAccount, client: Client, mail: Mail) -> None:
        """Within the sign-in's unit of work, so that nobody hears of a sign-in that came to nothing."""
        await uow.jobs.add(mail.as_job())
        await uow.record_in_every_log(password_breached(named.account.id, client.actor(named.account.id)), named.account.id)
