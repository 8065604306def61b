"""Authenticates users by passkey. A passkey counts as two factors, because an authenticator uses the key only after it has verified its
owner.
"""

from collections.abc import Sequence

import structlog

from core.domain.errors import Unauthorized
from core.domain.formats import Json
from core.domain.identifiers import UserId
from core.domain.identity.devices import Client
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.mfa import MfaEvent
from core.domain.identity.passkeys import (
    CHALLENGE_LIFETIME,
    PASSKEY_PROVIDER,
    Assertion,
    Ceremony,
    Passkey,
    PasskeyChallengeOver,
    PasskeyRefused,
    ReadAssertion,
    RequestOptions,
    challenge_digest,
    has_gone_back,
    passkey_copied,
)
from core.domain.identity.proofs import ProofMethod
from core.domain.identity.risk import Approach
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import NamedAccount, ServiceName, context_in
from core.frozen import Frozen, replace
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.passkeys import Passkeys
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.sign_in.proofs.proof import Arrival, EmailNotVerified, Proof
from ports.identity.sign_in import Authenticators, Destinations, PasskeyStore
from ports.mail import MailTemplates
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()


class UsedPasskey(Frozen):
    """A passkey whose answer was right. The new counter still has to be stored, by `PasskeyProofs.keep`."""

    passkey: Passkey
    named: NamedAccount
    approach: Approach
    read: ReadAssertion


class PasskeyProofs(Frozen):
    """A challenge is used up by the first response to it, right or wrong. Nobody can guess a passkey's response, so attempts are not
    limited per account.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: PasskeyStore
    passkeys: Passkeys
    authenticators: Authenticators
    destinations: Destinations
    devices: Devices
    login_events: LoginEvents
    realms: HomeRealms
    templates: MailTemplates
    system: System

    async def options(self, ceremony: Ceremony, bound_to: bytes, user: UserId | None = None) -> RequestOptions:
        """Makes a new challenge. `bound_to` names the browser or session that may answer it, or nobody in particular. `user` is the person,
        if known already. Raises `PasskeysUnavailable`.
        """
        relying_party = self.passkeys.require_relying_party()
        allowed: Sequence[Passkey] = () if user is None else await self.lookup.list(user)
        challenge = self.system.secrets.token().reveal()
        async with self.unit_of_work() as uow:
            await uow.passkeys.add_challenge(challenge_digest(challenge, ceremony, bound_to), self.system.clock.now() + CHALLENGE_LIFETIME)
            await uow.commit()
        return RequestOptions(relying_party, challenge, allowed)

    async def make(
        self, given: Assertion, bound_to: bytes, client: Client, service: ServiceName | None = None, *, application: Context = PLATFORM
    ) -> Arrival:
        """Makes the proof for a sign-in. `application` is the one that the browser's flow leads to. Raises the errors of `use`,
        and `NotFound` or `OrganizationNotActive` for the service.
        """
        context = context_in(service, None if service is None else await self.destinations.find(service))
        used = await self.use(given, Ceremony.SIGN_IN, bound_to, client, application=application)
        # Without an address, only an authenticator that stores the user handle can answer.
        if given.user_handle is None:
            raise await self._refused("there is no user handle", used.approach, used.named, application)
        now = self.system.clock.now()

        async def keep(uow: UnitOfWork) -> None:
            await self.keep(uow, used)

        proof = Proof(
            method=ProofMethod.PASSKEY,
            provider=PASSKEY_PROVIDER,
            amr=used.passkey.amr,
            at=now,
            use=keep,
            since=now,
            refusal=lambda: PasskeyRefused("the account changed meanwhile"),
            shows_two_factors=True,
        )
        return Arrival(used.named, proof, used.approach, context, await self.realms.of(used.named.account))

    async def use(
        self,
        given: Assertion,
        ceremony: Ceremony,
        bound_to: bytes,
        client: Client,
        user: UserId | None = None,
        *,
        application: Context = PLATFORM,
    ) -> UsedPasskey:
        """Uses the challenge up and checks the answer. If `user` is given, the passkey must be this person's. Raises `PasskeysUnavailable`,
        `PasskeyChallengeOver`, `PasskeyRefused`, and the refusals of accounts that may not sign in. A failure is logged.
        """
        read = await self.authenticators.read_assertion(given, self.passkeys.require_relying_party())
        approach = await self.devices.observe(client)
        challenge = challenge_digest(read.challenge, ceremony, bound_to)
        taken = await self.lookup.take(challenge, given.credential_id, approach, application=application)
        if taken is None or not taken.is_fresh:
            raise PasskeyChallengeOver
        if taken.passkey is None or taken.named is None:
            raise await self._refused(read.fault or "nobody has this passkey", approach, None, application, shows_no_key=True)
        used = UsedPasskey(_described(taken.passkey, read), taken.named, approach, read)
        fault = self._fault_of(used, user)
        if fault:
            shows_key = self.authenticators.verify(read, used.passkey.public_key)
            raise await self._refused(fault, approach, used.named, application, shows_no_key=not shows_key)
        if has_gone_back(used.passkey.sign_count, read.sign_count):
            raise await self._copied(used, application)
        account = used.named.account
        if account.deactivated_at is not None:
            await self._log_failure(LoginFailure.DEACTIVATED, approach, used.named, application)
            raise PasskeyRefused("the account is deactivated")
        # A named person has given another proof before: who came through the provider that vouches shows a passkey as the second factor.
        if not (account.address_is_proved or (user is not None and account.address_is_vouched)):
            await self._log_failure(LoginFailure.EMAIL_NOT_VERIFIED, approach, used.named, application)
            raise EmailNotVerified
        return used

    async def keep(self, uow: UnitOfWork, used: UsedPasskey) -> None:
        """Stores the passkey's new counter. This is the last step in the unit of work that uses the proof, and the account is held. Raises
        `PasskeyRefused` for a passkey that was removed meanwhile, or whose counter another use has overtaken.
        """
        passkey, read = used.passkey, used.read
        kept = await uow.passkeys.use(passkey, read.sign_count, backed_up=read.backed_up, at=self.system.clock.now())
        if not kept:
            raise PasskeyRefused("the passkey is gone, or was used meanwhile")

    def _fault_of(self, used: UsedPasskey, user: UserId | None) -> str:
        given = used.read.given
        if used.read.fault:
            return used.read.fault
        if user is not None and used.passkey.user != user:
            return "the passkey is another person's"
        if given.user_handle is not None and given.user_handle != used.passkey.handle:
            return "the user handle is another person's"
        if used.read.backup_eligible != used.passkey.backup_eligible:
            return "whether it may be copied has changed"
        return "" if self.authenticators.verify(used.read, used.passkey.public_key) else "the signature is wrong"

    async def _refused(
        self, detail: str, approach: Approach, named: NamedAccount | None, application: Context, *, shows_no_key: bool = False
    ) -> Unauthorized:
        await self._log_failure(LoginFailure.WRONG_PASSKEY, approach, named, application)
        return PasskeyRefused(detail, shows_no_key=shows_no_key)

    async def _copied(self, used: UsedPasskey, application: Context) -> Unauthorized:
        """Refuses a passkey whose counter is not higher than before, and mails the person: somebody may have copied the key out of the
        authenticator.
        """
        passkey, client = used.passkey, used.approach.client
        actor = client.actor(None)
        async with self.unit_of_work() as uow:
            counters: dict[str, Json] = {"passkey_id": str(passkey.id), "kept": passkey.sign_count, "told": used.read.sign_count}
            await uow.mfa.log(MfaEvent.PASSKEY_COPIED, passkey.user, actor, success=False, details=counters)
            await uow.record(passkey_copied(passkey, actor))
            account = used.named.account
            await uow.jobs.add(
                self.templates.mail(
                    "passkey_copied",
                    account.email.address,
                    account=account.id,
                    language=account.language or client.language,
                    passkey=passkey.name,
                    when=self.system.clock.now(),
                    address=client.address,
                    device=used.approach.agent.name,
                ).as_job()
            )
            await uow.commit()
        log.warning("passkey_copied", user=str(passkey.user), **counters)
        await self._log_failure(LoginFailure.COPIED_PASSKEY, used.approach, used.named, application)
        return PasskeyRefused("the counter went back")

    async def _log_failure(self, failure: LoginFailure, approach: Approach, named: NamedAccount | None, application: Context) -> None:
        await self.login_events.log_failure(failure, PASSKEY_PROVIDER, named, approach, application)


def _described(passkey: Passkey, read: ReadAssertion) -> Passkey:
    """The passkey as its authenticator describes it, where nobody has described it before."""
    return replace(passkey, backup_eligible=read.backup_eligible) if passkey.awaits_first_use else passkey
