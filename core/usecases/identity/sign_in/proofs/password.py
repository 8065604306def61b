"""Authenticates users by password, and handles correct passwords that are known to be breached."""

from collections.abc import Collection
from functools import partial
from typing import Final

from core.domain.errors import BadRequest, Forbidden, NotFound, OrganizationNotActive, Overloaded, RateLimited, Unauthorized
from core.domain.identity.account_mails import AccountMail, AskedMail
from core.domain.identity.devices import Client
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.passwords import BREACH_MAILS, AtSignIn, password_breached, strictest
from core.domain.identity.proofs import ProofMethod
from core.domain.identity.realms import ProviderRequired, Realm
from core.domain.identity.risk import Approach
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import (
    PASSWORD_PROVIDER,
    FamiliarAddresses,
    NamedAccount,
    Priority,
    ServiceName,
    Tries,
    context_in,
    failure_of,
)
from core.domain.mail import Email, Mail
from core.domain.secrets import Password
from core.frozen import Frozen
from core.usecases.identity.devices import Devices
from core.usecases.identity.guards.guesses import Guesses
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.sign_in.proofs.proof import WRONG_PASSWORD, Arrival, EmailNotVerified, Proof
from ports.crypto import BreachedPasswords, CommonPasswords, PasswordHasher
from ports.identity.sign_in import Attempts
from ports.mail import MailTemplates
from ports.system import Clock, SharedBuckets
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class PasswordBreached(Unauthorized):
    """The password is right, and opens nothing any more."""

    text = "The password is in a list of breached passwords: choose another with the link that was emailed to you"

    def __init__(self) -> None:
        super().__init__(words="password_breached_at_sign_in")


class KnownPasswords(Frozen):
    """The shipped list, and what the operator names besides."""

    common: CommonPasswords
    breached: BreachedPasswords

    async def contain(self, password: Password) -> bool:
        return self.common.contains(password) or await self.breached.contains(password)


class BreachesAtSignIn(Frozen):
    """Decides what a sign-in does with a correct password that is on a list of breached passwords.

    Breached passwords are looked up only after the password was correct, so that neither the response nor its time reveals that a listed
    password is the password of an account.
    """

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


class Checked(Frozen):
    """A right password."""

    named: NamedAccount
    encoded: str
    """The hash that the password was checked against; the account may have a newer hash by now."""
    tries: Tries
    approach: Approach
    context: Context
    realm: Realm | None
    priority: Priority


class PasswordProofs(Frozen):
    """Verifies the password of an account.

    Every refused attempt costs the same work: one look-up, one hash, one write. While imported hashes of other systems remain, every
    refused attempt takes the same time instead, because the work differs. A caller learns the reason of a refusal only after a correct
    password.

    `throttles`: whether attempts are limited per account.
    """

    unit_of_work: UnitOfWorkFactory
    attempts: Attempts
    passwords: PasswordHasher
    devices: Devices
    login_events: LoginEvents
    realms: HomeRealms
    familiar: FamiliarAddresses
    breaches: BreachesAtSignIn
    guesses: Guesses
    clock: Clock
    throttles: bool

    async def make(
        self,
        email: Email,
        password: Password,
        client: Client,
        service: ServiceName | None = None,
        *,
        application: Context = PLATFORM,
        priority: Priority = Priority.STRANGER,
    ) -> Arrival:
        """Makes the proof. `application` is the one that the browser's flow leads to, and `priority` the caller's lowest priority in the
        queue of passwords to check. Raises `BadRequest` for a value that cannot be a password, `NotFound` for a service that does not
        exist, `OrganizationNotActive`, `RateLimited` after too many attempts, `ProviderRequired` when people of the domain sign in at a
        provider, `PasswordBreached` for a right password that opens nothing any more, `Unauthorized` for any other refusal, and
        `Overloaded` when too many passwords wait to be checked. A failure is logged.
        """
        checked = await self._check(email, password, client, service, priority, application=application)
        breach = await self.breaches.judge(checked.named, password)
        if breach is AtSignIn.CHANGE:
            tried = application if service is None else checked.context
            await self.login_events.log_failure(LoginFailure.BREACHED_PASSWORD, PASSWORD_PROVIDER, checked.named, checked.approach, tried)
            await self.breaches.ask_for_another(checked.named, client)
            raise PasswordBreached
        told = None if breach is AtSignIn.OFF else await self.breaches.mail(checked.named, checked.approach)
        renewed = await self._renewed(checked, password)

        async def give_back(uow: UnitOfWork) -> None:
            # A successful attempt does not count against the limit.
            await uow.sign_ins.give_back(checked.tries)
            if told is not None:
                await self.breaches.tell(uow, checked.named, client, told)

        proof = Proof(
            method=ProofMethod.PASSWORD,
            provider=PASSWORD_PROVIDER,
            amr=("pwd",),
            at=self.clock.now(),
            use=give_back,
            encoded=checked.encoded,
            renewed=renewed,
        )
        return Arrival(checked.named, proof, checked.approach, checked.context, checked.realm)

    async def of_registration(self, email: Email, password: Password, client: Client) -> Checked:
        """Checks the password of an account whose address is not proved yet, for a person who has opened the verification link. The check
        counts as an attempt to sign in; the caller gives the attempt back after success. Raises the errors of `make`, but not
        `EmailNotVerified`.
        """
        return await self._check(email, password, client, None, Priority.PROVEN, tolerated=_LEFT_TO_THE_LINK)

    async def _check(
        self,
        email: Email,
        password: Password,
        client: Client,
        service: ServiceName | None,
        priority: Priority,
        *,
        application: Context = PLATFORM,
        tolerated: Collection[LoginFailure] = (),
    ) -> Checked:
        _require_plausible(password)
        self.guesses.admit(client)
        approach = await self.devices.observe(client)
        attempt = await self.attempts.find(email, approach, service, application=application, places=self.guesses.places(client))
        named, tries = attempt.named, attempt.tries
        # This comes before everything else, so that the answer is the same for every address.
        try:
            context = context_in(service, attempt.destination)
        except (NotFound, OrganizationNotActive, Forbidden):
            await self._give_back(tries)
            raise
        tried = application if service is None else context
        # Whoever gets in has guessed nothing, so it is made for those alone who do not.
        guess = partial(self.guesses.made, email, password, client, None if named is None else named.account.id, tries)
        if self.throttles and tries.wait > 0:
            await self.login_events.log_failure(LoginFailure.THROTTLED, PASSWORD_PROVIDER, named, approach, tried, guess=guess())
            raise RateLimited(retry_after=tries.wait, detail=tries.limit.name)
        encoded = None if named is None else named.encoded
        try:
            await self.guesses.slow(client, tries, attempt.pressure)
            priority = max(priority, self.familiar.priority(client.address, named))
            examined = await self.passwords.examine(encoded, password, priority)
        except (Overloaded, RateLimited):
            await self._give_back(tries)
            raise
        failure = failure_of(named, matches=examined.matches)
        if failure in tolerated:
            failure = None
        # This comes after the check, although no password is accepted here: neither the time nor the answer may show which account has this
        # password.
        is_exempt = failure is None and named is not None and named.account.is_platform_owner
        if await self.realms.is_closed(attempt.realm) and not is_exempt:
            refused = failure or LoginFailure.PROVIDER_REQUIRED
            await self.login_events.log_failure(refused, PASSWORD_PROVIDER, named, approach, tried, guess=guess())
            await self.passwords.hold_back(examined)
            raise ProviderRequired
        if failure is not None:
            await self.login_events.log_failure(failure, PASSWORD_PROVIDER, named, approach, tried, guess=guess())
            await self.passwords.hold_back(examined)
            if failure is LoginFailure.EMAIL_NOT_VERIFIED:
                raise EmailNotVerified
            raise Unauthorized(WRONG_PASSWORD, words="wrong_password")
        assert named is not None and encoded is not None  # noqa: S101, PT018 - for the type checker: nobody else got here
        return Checked(named, encoded, tries, approach, context, attempt.realm, priority)

    async def _renewed(self, checked: Checked, password: Password) -> str | None:
        """Returns the hash that takes the place of an outdated one, or of another system's. None: the hash stays, also when too many
        passwords wait.
        """
        if not self.passwords.is_outdated(checked.encoded):
            return None
        try:
            return await self.passwords.renew(checked.encoded, password, checked.priority)
        except Overloaded:
            return None

    async def _give_back(self, tries: Tries) -> None:
        """Gives an attempt back when no password was checked: the client is told to try later, and keeps its attempt."""
        if tries.wait > 0:
            # No attempt was taken from the limit, so a request for a service that does not exist must not give one back.
            return
        async with self.unit_of_work() as uow:
            await uow.sign_ins.give_back(tries)
            await uow.commit()


# The proof of the address settles the first, and the statement that verifies the address refuses the second.
_LEFT_TO_THE_LINK: Final = frozenset({LoginFailure.EMAIL_NOT_VERIFIED, LoginFailure.DEACTIVATED})


def _require_plausible(password: Password) -> None:
    if not password.reveal():
        raise BadRequest("password: must not be empty", words="password_missing")
