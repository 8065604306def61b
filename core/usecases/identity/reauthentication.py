"""Reauthentication: a session may not do the most important things until its person has recently proved that they are the one using it."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeVar

from core.domain.errors import Unauthorized
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.mfa import CODES_IN_SESSION
from core.domain.identity.passkeys import Assertion, Ceremony, bound_to_session
from core.domain.identity.priority import Priority
from core.domain.identity.proofs import ProofMethod, Proved, Standing, StepUp, missing_proof, proof_renewed, require_fresh
from core.domain.identity.sign_in import PASSWORD_PROVIDER
from core.domain.record.events import Actor
from core.domain.secrets import Password
from core.frozen import Frozen
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.mfa import BesidePasskeys, Mfa
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.sign_in.proofs.passkey import PasskeyProofs
from core.usecases.identity.sign_in.proofs.password import PasswordProofs
from core.usecases.identity.sign_in.proofs.proof import WRONG_PASSWORD
from ports.clock import Clock
from ports.identity.proofs import ProofLookup
from ports.metrics import Metrics
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
    """`window` is how old a proof may be."""

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
