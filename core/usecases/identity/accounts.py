"""Accounts: registered, verified, moved to another email address, and summarized for their overview page."""

from collections.abc import Awaitable, Callable, Sequence

from core.domain.errors import BadRequest, Conflict, RateLimited, Unauthorized, found
from core.domain.identifiers import SessionId, TermsId, UserId
from core.domain.identity.account_mails import (
    NOWHERE,
    PROVES_ADDRESS,
    AccountMail,
    AskedMail,
    Links,
    MailedToken,
    MailedTokenPurpose,
    Onward,
    Waiting,
    mailed_token,
    refusal_of,
)
from core.domain.identity.accounts import (
    EMAIL_CHANGES,
    Account,
    AccountSummary,
    EmailChange,
    StartedApplication,
    StartingPlaces,
    signed_up,
    unverified_account,
)
from core.domain.identity.devices import Client
from core.domain.identity.passwords import PasswordStanding
from core.domain.identity.sign_in import PASSWORD_PROVIDER, ServiceName, context_in
from core.domain.identity.terms import Acceptance, TermsVersion, terms_accepted
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Password, Token
from core.frozen import Frozen, replace
from core.usecases.identity.account_endings import end_second_factor, hand_over, require_living
from core.usecases.identity.account_passwords import FittingPassword, PasswordRules
from core.usecases.identity.registering import MailBudgets, Registrations, asked_from
from ports.crypto import PasswordHasher
from ports.identity.accounts import AccountSummaryLookup
from ports.identity.sign_in import Destinations
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.system import Clock, SharedBuckets, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Accounts(Frozen):
    unit_of_work: UnitOfWorkFactory
    rules: PasswordRules
    passwords: PasswordHasher
    destinations: Destinations
    templates: MailTemplates
    links: Links
    buckets: SharedBuckets
    metrics: Metrics
    system: System
    budgets: MailBudgets
    registrations: Registrations
    immediate_email_changes: bool

    async def register(
        self,
        email: Email,
        password: Password | FittingPassword,
        organization: str,
        actor: Actor,
        service: ServiceName | None = None,
        *,
        browser: Token | None = None,
        onward: Onward = NOWHERE,
        solved: bool = False,
        accepting: Sequence[TermsId] = (),
    ) -> UserId:
        """Creates an account that can sign in once its address is verified. The organization, named by its slug, gives the mail its name
        and colour. The service is recorded as the origin of the account; a person becomes a user of the service by signing in there. If a
        directory has deactivated an account with this address, the registration only asks for a link to that account, as "Forgot your
        password?" does: whoever reads the mailbox opens the account, and nobody else changes it. `browser` is given when one of our pages
        registers the account: it is the secret that the browser keeps for its flows, and in that browser the person can prove the address
        without the password. `accepting` are the terms that the form has named: those that are in force are accepted, and the next sign-in
        asks for the others. Raises `RegistrationClosed` where nobody registers, `BadRequest`, `RateLimited` when too many mails were asked
        for from there, for known and unknown addresses alike, `Conflict`, `NotFound` for a service that does not exist,
        `OrganizationNotActive`.
        """
        await self.registrations.require(email, organization)
        if not isinstance(password, FittingPassword):
            named = () if service is None else (service.organization, service.service)
            password = await self.rules.fitting(password, email, PasswordStanding(names=named))
        # Before any hash: a flood costs no more than the page. Nothing waits here, since an account without its mail helps nobody.
        await self.budgets.count(asked_from(actor.address, email, organization), may_wait=False, solved=solved)
        context = context_in(service, None if service is None else await self.destinations.find(service), gives_tokens=False)
        encoded = await self.passwords.hash(password.password)
        user = UserId(self.system.ids.new())
        now = self.system.clock.now()
        account = unverified_account(user, email, now, actor.language)
        async with self.unit_of_work() as uow:
            registered_in = None if browser is None else browser.digest()
            if await uow.accounts.add(account, encoded, context.service, registered_in=registered_in):
                mail = AskedMail(AccountMail.VERIFICATION, email, organization, actor.language, onward, account=user)
                await uow.record(signed_up(user, replace(actor, user=user), PASSWORD_PROVIDER, context))
                accepted = await self._accept(uow, user, accepting, replace(actor, user=user))
            else:
                known = await uow.accounts.find(email)
                if known is None or not known.opens_by_proof:
                    raise Conflict("This email address is already registered", words="address_registered")
                user, accepted = known.id, ()
                mail = AskedMail(AccountMail.RESET, email, organization, actor.language, asked_at=now)
            await uow.jobs.add(mail.as_job())
            await uow.commit()
        for one in accepted:
            self.metrics.terms_accepted(one.keeper)
        return user

    async def _accept(self, uow: UnitOfWork, user: UserId, named: Sequence[TermsId], actor: Actor) -> Sequence[TermsVersion]:
        if not named:
            return ()
        terms, now = await uow.terms.hold_shown(named), self.system.clock.now()
        await uow.terms.accept([Acceptance(user, one.id, None, now) for one in terms])
        await uow.record_all([terms_accepted(one, user, actor) for one in terms])
        return terms

    async def was_just_registered(self, email: Email, password: Password) -> bool:
        """Returns whether this account was registered a moment ago with this password, so that a form that is sent twice is no error."""
        async with self.unit_of_work() as uow:
            account = await uow.accounts.find(email)
            if account is None or not account.is_new(self.system.clock.now()):
                return False
            found = await uow.account_passwords.find(account.id)
        return found is not None and found.encoded is not None and await self.passwords.verify(found.encoded, password)

    async def ask_for_mail(
        self, kind: AccountMail, email: Email, organization: str, language: Language | None = None, onward: Onward = NOWHERE
    ) -> None:
        """Queues one job, for known and unknown addresses alike, and looks nothing up. For people who are signed in, and ask for a mail to
        themselves. `language` is the language of the request, for a person who has not chosen one.
        """
        await self._queue(AskedMail(kind, email, organization, language, onward, asked_at=self.system.clock.now()))

    async def ask_as_stranger(
        self,
        kind: AccountMail,
        email: Email,
        organization: str,
        client: Client,
        onward: Onward = NOWHERE,
        *,
        may_wait: bool,
        solved: bool = False,
    ) -> bool:
        """As `ask_for_mail`, for everybody: the request counts in the budgets of mails, whether or not the address has an account.
        `solved`: it has solved a puzzle. Returns whether the mail waits. Raises `RateLimited` when a budget is used up and the mail cannot
        wait.
        """
        asked = asked_from(client.address, email, organization)
        until = await self.budgets.count(asked, may_wait=may_wait, solved=solved)
        waits = None if until is None else Waiting(until, asked.network)
        await self._queue(AskedMail(kind, email, organization, client.language, onward, asked_at=self.system.clock.now(), waits=waits))
        return waits is not None

    async def _queue(self, asked: AskedMail) -> None:
        async with self.unit_of_work() as uow:
            await uow.jobs.add(asked.as_job())
            await uow.commit()

    async def prove_address(self, token: Token, actor: Actor) -> MailedTokenPurpose:
        """Redeems the link of a verification mail or of a change of address, without a password. Returns the link's purpose."""
        async with self.unit_of_work() as uow:
            found = await uow.mailed_tokens.find(token.digest(), PROVES_ADDRESS)
            if found is None:
                raise refusal_of(None)
            await self.redeem(uow, found)
            await self.end_vouched(uow, found, actor)
            await self.settle(uow, found, actor)
            await uow.commit()
        return found.purpose

    async def redeem(self, uow: UnitOfWork, link: MailedToken) -> None:
        """Uses the link up, and holds its account. Raises `LinkRefused`."""
        # The account is held before the link's row: every change of the account takes the two in this order.
        if link.purpose is MailedTokenPurpose.CHANGE_EMAIL:
            await uow.accounts.hold_to_move(link.user)
        else:
            await uow.accounts.hold(link.user)
        if await uow.mailed_tokens.redeem(link.digest, PROVES_ADDRESS, self.system.clock.now()) is None:
            raise refusal_of(await uow.mailed_tokens.find(link.digest, PROVES_ADDRESS))

    async def end_vouched(self, uow: UnitOfWork, link: MailedToken, actor: Actor) -> None:
        """Ends everything that nobody has proved, if so far only an organization's own provider has vouched for the address that the link
        proves. Other accounts keep what their registration left.
        """
        if link.purpose is not MailedTokenPurpose.VERIFY_EMAIL:
            return
        registration = await uow.account_passwords.registration(link.user)
        if registration is not None and registration.is_vouched:
            await self.disown_unverified(uow, link.user, actor)

    async def settle(self, uow: UnitOfWork, link: MailedToken, actor: Actor) -> None:
        """Marks the address of a redeemed link as proved. Raises `LinkRefused`, and `BadRequest` when another account has the address."""
        actor = replace(actor, user=link.user)
        if link.purpose is MailedTokenPurpose.CHANGE_EMAIL:
            await self._change(uow, link.user, link.email, actor)
        else:
            await self._verify(uow, link.user, link.email, actor)

    async def look_at_link(self, token: Token) -> MailedTokenPurpose:
        """Returns what a link would do, without using the link. Raises `BadRequest` when the link no longer works."""
        async with self.unit_of_work() as uow:
            found = await uow.mailed_tokens.find(token.digest(), PROVES_ADDRESS)
        if found is None or not found.is_usable(self.system.clock.now()):
            raise refusal_of(found)
        return found.purpose

    async def ask_for_email(
        self,
        user: UserId,
        session: SessionId,
        email: Email,
        actor: Actor,
        *,
        beside: Callable[[UnitOfWork], Awaitable[object]] | None = None,
    ) -> EmailChange:
        """Moves the account to another address. The new address takes effect when the link mailed to it is opened, or at once if the
        installation is set up so. Asking for the current address withdraws a pending change. `beside` is done in the same unit of work,
        while the account is held. Raises `RateLimited`, `BadRequest` for the address, and as long as only an organization's own provider
        has vouched for the present one, `NotFound` when the account has ended, and `Unauthorized` when the session has ended.
        """
        wait = await self.buckets.take(EMAIL_CHANGES, str(user))
        if wait > 0:
            raise RateLimited(retry_after=wait)
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            await (uow.accounts.hold_to_move if self.immediate_email_changes else uow.accounts.hold)(user)
            if await uow.accounts.email_is_taken(email, user):
                raise BadRequest("email: this email address cannot be used", words="email_unusable")
            current = found(await uow.accounts.await_email(user, email, now), "There is no such account", words="account_unknown")
            await require_living(uow, session)
            if current.email.address != email.address:
                _require_movable(current)
            if beside is not None:
                await beside(uow)
            if current.email.address == email.address:
                await self._withdraw(uow, user)
                change = EmailChange(current.email, pending=None)
            elif self.immediate_email_changes:
                await self._change(uow, user, email, actor)
                change = EmailChange(email, pending=None)
            else:
                await self._mail_both(uow, current, email, actor)
                change = EmailChange(current.email, pending=email)
            await uow.commit()
        return change

    async def disown_unverified(self, uow: UnitOfWork, user: UserId, actor: Actor) -> bool:
        """Prepares an unproved account for the person who now proves its address: by an invitation, through a directory, or by the link of
        a verification mail without the password of the registration. Removes first everything that the person who registered the account
        left there; name and picture stay if an organization's own provider has vouched for the address. Returns False when the address is
        proved; such an account keeps everything.
        """
        now = self.system.clock.now()
        await uow.accounts.hold(user)
        unverified = await uow.account_passwords.forget_unverified(user, now)
        if unverified is None:
            return False
        await end_second_factor(uow, user, actor)
        await hand_over(uow, user, now, keeps_profile=unverified.is_vouched)
        event = Event("security.password.changed", actor, _target(user), details={"how": "removed_unverified"})
        await uow.record_in_every_log(event, user)
        return True

    async def _verify(self, uow: UnitOfWork, user: UserId, email: Email, actor: Actor) -> None:
        account = await uow.accounts.verify_email(user, email, self.system.clock.now())
        if account is None:
            raise refusal_of(None)
        language = account.language or actor.language
        mail = self.templates.mail("welcome", email.address, account=user, language=language, link=self.links.frontend_url)
        await uow.jobs.add(mail.as_job())
        await uow.record(Event("user.email.verified", actor, _target(user)))

    async def _change(self, uow: UnitOfWork, user: UserId, email: Email, actor: Actor) -> None:
        now = self.system.clock.now()
        before = await uow.accounts.change_email(user, email, now)
        if before is None:
            raise refusal_of(None)
        _require_movable(before)
        # Every other link was mailed to the old address.
        await uow.mailed_tokens.end_all(user, now)
        await self._tell_old_address(uow, before, email, actor, done=True)
        await uow.record(Event("user.email.changed", actor, _target(user)))

    async def _mail_both(self, uow: UnitOfWork, account: Account, wanted: Email, actor: Actor) -> None:
        now, user = self.system.clock.now(), account.id
        token = self.system.secrets.mailed_token()
        await uow.mailed_tokens.issue(mailed_token(token, MailedTokenPurpose.CHANGE_EMAIL, user, wanted, now))
        link = self.links.redeeming(MailedTokenPurpose.CHANGE_EMAIL, token)
        language = account.language or actor.language
        mail = self.templates.mail("email_changed_new", wanted.address, account=user, language=language, link=link)
        await uow.jobs.add(mail.as_job())
        await self._tell_old_address(uow, account, wanted, actor, done=False)
        await uow.record(Event("user.email.change_requested", actor, _target(user)))

    async def _tell_old_address(self, uow: UnitOfWork, before: Account, new: Email, actor: Actor, *, done: bool) -> None:
        mail = self.templates.mail(
            "email_changed_old",
            before.email.address,
            account=before.id,
            language=before.language or actor.language,
            new_email=new.address,
            done=done,
            when=self.system.clock.now(),
            address=actor.address,
        )
        await uow.jobs.add(mail.as_job())

    async def _withdraw(self, uow: UnitOfWork, user: UserId) -> None:
        now = self.system.clock.now()
        await uow.accounts.withdraw_email(user, now)
        await uow.mailed_tokens.end(user, MailedTokenPurpose.CHANGE_EMAIL, now)


def _require_movable(account: Account) -> None:
    """Raises `BadRequest` while only an organization's own provider has vouched for the address. Whoever came by the provider's word would
    take the account to a mailbox of theirs, with all that others have listed there for the mailbox's owner.
    """
    if account.address_is_vouched:
        raise BadRequest("Verify your email address first", words="address_unproved")


def _target(user: UserId) -> Target:
    return Target("user", str(user))


class AccountSummaries(Frozen):
    lookup: AccountSummaryLookup
    clock: Clock

    async def of(self, user: UserId, session: SessionId | None = None) -> AccountSummary:
        found = await self.lookup.find(user, self.clock.now(), session)
        if found is None:
            raise Unauthorized("The account no longer exists")
        return found

    async def start(self, user: UserId, session: SessionId | None = None) -> tuple[AccountSummary, StartingPlaces]:
        """The summary, with the applications that the person may use and the organizations that the person looks after."""
        found = await self.lookup.start(user, self.clock.now(), session)
        if found is None:
            raise Unauthorized("The account no longer exists")
        return found

    async def applications(self, user: UserId, organization: str) -> Sequence[StartedApplication]:
        """The applications of the organization with this slug that the person may use."""
        return await self.lookup.applications(user, organization)
