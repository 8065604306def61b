"""Reauthentication (step-up): sensitive operations require that the user of the session has authenticated recently."""

import hmac
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeVar

from core.domain.errors import Forbidden, RateLimited, Unauthorized
from core.domain.identifiers import FlowId
from core.domain.identity.account_mails import (
    CODE_DIGITS,
    CODE_LENGTH,
    MAILED_CODES,
    CodeRefused,
    MailedTokenPurpose,
    code_digest,
    mailed_token,
)
from core.domain.identity.accounts import ACCOUNT_MAILS
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.mfa import CODES_IN_SESSION
from core.domain.identity.passkeys import Assertion, Ceremony, bound_to_session
from core.domain.identity.proofs import ProofMethod, Proved, Standing, StepUp, missing_proof, proof_renewed, require_fresh
from core.domain.identity.sign_in import PASSWORD_PROVIDER, Priority, account_key
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.secrets import Password, Secret
from core.frozen import Frozen, replace
from core.usecases.identity.account_mails import CODES
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.mfa import BesidePasskeys, Mfa
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.sign_in.proofs.passkey import PasskeyProofs
from core.usecases.identity.sign_in.proofs.password import PasswordProofs
from core.usecases.identity.sign_in.proofs.proof import WRONG_PASSWORD
from ports.crypto import ServerSecrets
from ports.identity.sign_in import ProofLookup
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.system import Clock, SharedBuckets, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

Changed = TypeVar("Changed")


class Missing(Frozen):
    """The proof that a session lacks. If the person cannot give the proof here, because they have no password or sign in at a provider, the
    person signs in again.
    """

    method: ProofMethod
    possible: bool
    by_passkey: bool
    """Whether a passkey is accepted instead."""
    by_app: bool
    """Whether the code may come from an authenticator app; otherwise it is a backup code."""
    by_mail: bool = False
    """Whether the person may prove it by a code that we mail."""
    is_in_vain: bool = False
    """Whether a further sign-in in the same way would prove nothing."""


class Reauthentication(Frozen):
    """Requires a recent authentication of the session, and accepts one by password, authenticator app, backup code or passkey.

    `window` is how old a proof may be.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: ProofLookup
    passwords: PasswordProofs
    passkeys: PasskeyProofs
    mfa: Mfa
    devices: Devices
    login_events: LoginEvents
    realms: HomeRealms
    metrics: Metrics
    clock: Clock
    window: timedelta

    async def require(self, caller: Caller, asked: StepUp) -> None:
        """Raises `ReauthenticationRequired` when the caller's session has no fresh proof."""
        require_fresh(await self._standing(caller), asked, self.clock.now(), self.window)

    def has_proved(self, caller: Caller, second_factor_since: datetime | None, asked: StepUp) -> bool:
        """Returns whether a caller from a browser, whose proofs are known, has a fresh proof. `second_factor_since` is the value that the
        page has read anyway.
        """
        return missing_proof(Standing(caller.proved, second_factor_since), asked, self.clock.now(), self.window) is None

    async def missing(self, caller: Caller, asked: StepUp, *, since: datetime | None = None) -> Missing | None:
        """Returns the proof that the caller has to give first, or None when a fresh proof is there. `since`: the proof must be younger."""
        standing, now = await self._standing(caller), self.clock.now()
        method = missing_proof(standing, asked, now, self.window if since is None else now - since)
        if method is None:
            return None
        possible = method is ProofMethod.CODE or (standing.has_password and await self._takes_passwords(caller))
        # Whoever came by a provider that tells no time would come back from it as they are now.
        by_mail = not possible and not standing.has_passkey and standing.proved.is_silent and standing.has_proved_address
        return Missing(
            method,
            possible,
            by_passkey=standing.has_passkey,
            by_app=standing.has_authenticator,
            by_mail=by_mail,
            is_in_vain=standing.proved.is_silent and not by_mail,
        )

    async def with_password(self, caller: Caller, password: Password, client: Client, actor: Actor) -> None:
        """Proves the session by the password. This counts as an attempt to sign in: it is limited, and a failure is logged. Raises the
        errors of `PasswordProofs.make`.
        """
        arrival = await self.passwords.make(caller.email, password, client, priority=Priority.PROVEN)
        if arrival.named.account.id != caller.user:
            raise Unauthorized(WRONG_PASSWORD, words="wrong_password", detail="the address now belongs to another account")
        async with self.unit_of_work() as uow:
            await arrival.last_look(uow)
            await arrival.proof.use(uow)
            await self._renew(uow, caller, ProofMethod.PASSWORD, Proved(arrival.proof.at), actor)
        self.metrics.reauthenticated(ProofMethod.PASSWORD.value)

    async def with_code(self, caller: Caller, code: str, client: Client, actor: Actor) -> None:
        """Proves the session by a code of the authenticator or a backup code; each code works once. Raises `Unauthorized` for a wrong code,
        also for a person without a second factor, and `RateLimited` after too many codes within the person's sessions.
        """
        approach = await self.devices.observe(client)
        await self.mfa.prepare()
        async with self.unit_of_work() as uow:
            # The account is held before its second factor, as everywhere.
            await uow.accounts.hold_shared(caller.user)
            if await self.mfa.check(uow, caller.user, code, actor, client, limit=CODES_IN_SESSION) is None:
                sighting = self.devices.judge(approach, await uow.devices.knowledge(caller.user, approach))
                await self.login_events.log_wrong_code(uow, caller.user, PASSWORD_PROVIDER, sighting)
                raise Unauthorized("The code is not valid", words="wrong_code")
            await self._renew(uow, caller, ProofMethod.CODE, Proved(second_factor_at=self.clock.now()), actor)
        self.metrics.reauthenticated(ProofMethod.CODE.value)

    async def with_passkey(self, caller: Caller, given: Assertion, client: Client, actor: Actor) -> None:
        """Proves the session by a passkey of the caller's, which proves both factors. Raises the errors of `PasskeyProofs.use`."""
        used = await self.passkeys.use(given, Ceremony.PROVE, bound_to_session(caller.session), client, caller.user)
        now = self.clock.now()
        async with self.unit_of_work() as uow:
            await uow.accounts.hold_shared(caller.user)
            await self.passkeys.keep(uow, used)
            await self.mfa.log_passkey(uow, caller.user, actor)
            await self._renew(uow, caller, ProofMethod.PASSKEY, Proved(now, now), actor)
        self.metrics.reauthenticated(ProofMethod.PASSKEY.value)

    async def with_app(self, caller: Caller, change: Callable[[bool], Awaitable[Changed]]) -> Changed:
        """Runs `change`, a step of setting up an authenticator app. `change` gets whether the caller has proved the second factor lately;
        this is looked up only if `change` needs it. Raises `ReauthenticationRequired`.
        """
        try:
            return await change(False)
        except BesidePasskeys:
            await self.require(caller, StepUp.SECOND_FACTOR)
            return await change(True)

    async def _takes_passwords(self, caller: Caller) -> bool:
        return caller.is_platform_owner or not await self.realms.requires_provider(caller.email)

    async def _standing(self, caller: Caller) -> Standing:
        standing = await self.lookup.find(caller.session, caller.user)
        if standing is None:
            raise Unauthorized("The session has ended")
        return standing

    async def _renew(self, uow: UnitOfWork, caller: Caller, method: ProofMethod, proved: Proved, actor: Actor) -> None:
        """Records the proof on the session. A session that has ended meanwhile stays ended, but the right code is used up."""
        await uow.sessions.prove(caller.session, caller.user, proved)
        await uow.record(proof_renewed(caller.user, caller.session, method, actor))
        await uow.commit()


class MailedProofs(Frozen):
    """Reauthenticates by a mailed code users who have no other authenticator: no password, no passkey, and an identity provider that states
    no `auth_time`. Whoever reads mail at the verified email address could set a password by it anyway.
    """

    unit_of_work: UnitOfWorkFactory
    reauthentication: Reauthentication
    templates: MailTemplates
    buckets: SharedBuckets
    server_secrets: ServerSecrets
    devices: Devices
    login_events: LoginEvents
    metrics: Metrics
    system: System

    async def send(self, caller: Caller, client: Client) -> None:
        """Mails a code to the proved address of the caller. Only the last code works, and only in this session. Raises `Forbidden` when the
        caller has another way to prove who they are, or no proved address, and `RateLimited`.
        """
        await self._require_no_other_way(caller)
        wait = await self.buckets.take(ACCOUNT_MAILS, f"{MailedTokenPurpose.PROVE}:{account_key(caller.email)}")
        if wait > 0:
            raise RateLimited(retry_after=wait, detail=ACCOUNT_MAILS.name)
        code: Secret = self.system.secrets.letters(CODE_DIGITS, CODE_LENGTH)
        key = await self.server_secrets.get(CODES)
        issued = mailed_token(
            self.system.secrets.mailed_token(), MailedTokenPurpose.PROVE, caller.user, caller.email, self.system.clock.now()
        )
        digest = self._digest(caller, code, issued.digest, caller.email, key)
        mail = self.templates.mail(
            "proof_code",
            caller.email.address,
            account=caller.user,
            language=caller.language or client.language,
            code=code.reveal(),
        )
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(caller.user)
            await uow.mailed_tokens.issue(replace(issued, flow=FlowId(caller.session), code_digest=digest))
            await uow.jobs.add(replace(mail.as_job(), only_for=caller.user))
            await uow.commit()

    async def use(self, caller: Caller, code: Secret, client: Client, actor: Actor) -> None:
        """Proves the session by the code. A wrong code counts as a failed attempt to sign in. Raises `RateLimited`, and `CodeRefused`, also
        when the address has changed since the mail.
        """
        wait = await self.buckets.take(MAILED_CODES, account_key(caller.email))
        if wait > 0:
            raise RateLimited(retry_after=wait, detail=MAILED_CODES.name)
        approach = await self.devices.observe(client)
        key = await self.server_secrets.get(CODES)
        async with self.unit_of_work() as uow:
            # The account keeps its address until the commit. A try is counted in any case: `log_wrong_code` commits it.
            await uow.accounts.hold_shared(caller.user)
            now = self.system.clock.now()
            found = await uow.mailed_tokens.try_proof(caller.session, caller.user, now)
            is_right = found is not None and hmac.compare_digest(
                found.code_digest or b"", self._digest(caller, code, found.digest, found.email, key)
            )
            if found is None or not is_right or await uow.mailed_tokens.redeem(found.digest, {found.purpose}, now) is None:
                sighting = self.devices.judge(approach, await uow.devices.knowledge(caller.user, approach))
                await self.login_events.log_wrong_code(uow, caller.user, PASSWORD_PROVIDER, sighting)
                raise CodeRefused
            await uow.sessions.prove(caller.session, caller.user, Proved(now))
            await uow.record(proof_renewed(caller.user, caller.session, ProofMethod.MAIL, actor))
            await uow.commit()
        self.metrics.reauthenticated(ProofMethod.MAIL.value)

    async def _require_no_other_way(self, caller: Caller) -> None:
        missing = await self.reauthentication.missing(caller, StepUp.SIGN_IN, since=self.system.clock.now())
        if missing is None or not missing.by_mail:
            raise Forbidden("You can verify your identity with another method", words="prove_otherwise")

    @staticmethod
    def _digest(caller: Caller, code: Secret, link: bytes, email: Email, key: bytes) -> bytes:
        return code_digest(code, link, FlowId(caller.session), email, key)
