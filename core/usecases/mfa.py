"""The second factor: set up, enabled with a first code, checked at sign-in, disabled.

Every change of it ends the trust in devices: they were trusted on the strength of what has just changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.domain.devices import Client
from core.domain.email import Email
from core.domain.errors import BadRequest, RateLimited
from core.domain.events import Actor, Event, Target
from core.domain.identifiers import OrganizationId, UserId
from core.domain.json import Json
from core.domain.mail import Mail
from core.domain.mfa import (
    CODES_AT_SET_UP,
    CODES_AT_SIGN_IN,
    MfaEvent,
    MfaMethod,
    MfaSecret,
    MfaStatus,
    Refused,
    SetUp,
    backup_code,
    sealing_context,
    time_based_code,
)
from core.domain.rate_limits import RateLimit
from core.domain.secrets import Secret
from core.domain.sessions import Caller
from ports.clock import Clock
from ports.encryption import KeyRing
from ports.mail_templates import MailTemplates
from ports.mfa import BackupCodes, MfaLookup, Totp
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Mfa:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        *,
        lookup: MfaLookup,
        totp: Totp,
        backup_codes: BackupCodes,
        keyring: KeyRing,
        templates: MailTemplates,
        clock: Clock,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._totp = totp
        self._backup_codes = backup_codes
        self._keyring = keyring
        self._templates = templates
        self._clock = clock

    async def status(self, user: UserId) -> MfaStatus:
        return await self._lookup.status(user)

    async def set_up(self, caller: Caller, actor: Actor) -> SetUp:
        """A new secret, to be confirmed by a code. One that still awaits its code is replaced. Raises `BadRequest` when MFA is enabled."""
        secret = self._totp.new_secret()
        uri = self._totp.uri(secret, caller.email.address)
        drawn = await self._totp.qr_code(uri)
        sealed = self._keyring.seal(secret.reveal().encode(), sealing_context(caller.user))
        async with self._unit_of_work() as unit:
            stored = await unit.mfa.put_pending(caller.user, sealed, self._clock.now())
            if stored:
                await unit.mfa.log(MfaEvent.SETUP_INITIATED, caller.user, actor, success=True)
            else:
                await unit.mfa.log(
                    MfaEvent.SETUP_FAILED, caller.user, actor, success=False, details={"reason": Refused.ALREADY_ENABLED.value}
                )
            await unit.commit()
        if not stored:
            raise BadRequest(_EXPLAINED[Refused.ALREADY_ENABLED])
        return SetUp(secret, uri, drawn)

    async def enable(self, caller: Caller, actor: Actor, code: str) -> Sequence[Secret]:
        """A first code proves that the authenticator has the secret. Returns the backup codes, this once.

        Raises `BadRequest` when MFA is not set up, enabled already, or the code is wrong; `RateLimited` after too many codes.
        """
        codes, digests = await self._new_backup_codes(caller.user)
        async with self._unit_of_work() as unit:
            refused = await self._try_to_enable(unit, caller.user, code)
            await self._log_check(unit, caller.user, actor, refused)
            if refused is None:
                await unit.mfa.replace_backup_codes(caller.user, digests)
                for event in (MfaEvent.SETUP_COMPLETED, MfaEvent.ENABLED, MfaEvent.BACKUP_CODES_GENERATED):
                    await unit.mfa.log(event, caller.user, actor, success=True)
                await self._changed(unit, caller.user, actor, "enabled", organization=caller.organization_id)
                await unit.jobs.add(self._mail("mfa_enabled", caller.email, actor).as_job())
            else:
                await unit.mfa.log(MfaEvent.SETUP_FAILED, caller.user, actor, success=False, details={"reason": refused.value})
            # Either way: a guess that is not remembered would be free.
            await unit.commit()
        if refused is not None:
            raise BadRequest(_EXPLAINED[refused])
        return codes

    async def disable(self, caller: Caller, actor: Actor) -> None:
        """Delete secret and codes; a set-up that was pending too. May be repeated."""
        async with self._unit_of_work() as unit:
            if await unit.mfa.disable(caller.user):
                await unit.mfa.log(MfaEvent.DISABLED, caller.user, actor, success=True)
                await self._changed(unit, caller.user, actor, "disabled", organization=caller.organization_id)
                await unit.jobs.add(self._mail("mfa_disabled", caller.email, actor).as_job())
            await unit.commit()

    async def force_disable(self, user: UserId, email: Email, actor: Actor, reason: str, operator: str = "") -> bool:
        """For whoever lost their second factor, by somebody who may: the caller has seen to that. False when it was not enabled. `operator`
        is the name that whoever does it on the command line goes by there.
        """
        # What somebody wrote about a person, and who that was, must be possible to forget.
        personal = {"reason": reason, **({"operator": operator} if operator else {})}
        async with self._unit_of_work() as unit:
            disabled = await unit.mfa.disable(user)
            if disabled:
                await unit.mfa.log(MfaEvent.FORCE_DISABLED, user, actor, success=True, details={"reason": reason})
                await self._changed(unit, user, actor, "disabled", details={"forced": True}, personal=personal)
                await unit.jobs.add(self._mail("mfa_disabled", email, actor).as_job())
            await unit.commit()
        return disabled

    async def renew_backup_codes(self, caller: Caller, actor: Actor) -> Sequence[Secret]:
        """Earlier ones end, used or not. Returns the new ones, this once. Raises `BadRequest` when MFA is not enabled."""
        codes, digests = await self._new_backup_codes(caller.user)
        async with self._unit_of_work() as unit:
            # Held, so that it is not disabled before the codes are in.
            secret = await unit.mfa.hold(caller.user)
            if secret is None or secret.enabled_at is None:
                raise BadRequest(_EXPLAINED[Refused.NOT_ENABLED])
            await unit.mfa.replace_backup_codes(caller.user, digests)
            await unit.mfa.log(MfaEvent.BACKUP_CODES_GENERATED, caller.user, actor, success=True)
            await unit.devices.end_trust(caller.user)
            target = Target("user", str(caller.user))
            # No webhook hears of it: the interface's list has no name for it.
            await unit.record(Event("security.mfa.backup_codes_generated", actor, target, caller.organization_id, published=False))
            await unit.commit()
        return codes

    async def prepare(self) -> None:
        """What `check` needs besides its unit of work. Called before that is entered, so that no check waits for a second connection while
        it holds one.
        """
        await self._backup_codes.prepare()

    async def check(self, unit: UnitOfWork, user: UserId, code: str, actor: Actor, client: Client | None = None) -> MfaMethod | None:
        """Redeem a code at sign-in. None when it is wrong or was used; the caller commits all the same, or the guess was free.

        Raises `RateLimited` after too many codes for this person, from wherever they came, or from this device if it is a trusted one.
        """
        secret = await self._guess(unit, user, CODES_AT_SIGN_IN, client)
        method = MfaMethod.BACKUP_CODE if time_based_code(code) is None else MfaMethod.TOTP
        if secret is None or secret.enabled_at is None:
            refused: Refused | None = Refused.NOT_ENABLED
        elif method is MfaMethod.TOTP:
            refused = await self._redeem_step(unit, secret, code)
        else:
            refused = await self._redeem_backup_code(unit, user, code)
        await self._log_check(unit, user, actor, refused)
        if refused is not None:
            return None
        if method is MfaMethod.BACKUP_CODE:
            await unit.mfa.log(MfaEvent.BACKUP_CODE_USED, user, actor, success=True)
        return method

    async def _guess(self, unit: UnitOfWork, user: UserId, limit: RateLimit, client: Client | None = None) -> MfaSecret | None:
        guess = await unit.mfa.begin_guess(user, limit, client)
        if guess.wait > 0:
            raise RateLimited(retry_after=guess.wait, detail=limit.name)
        return guess.secret

    async def _try_to_enable(self, unit: UnitOfWork, user: UserId, code: str) -> Refused | None:
        secret = await self._guess(unit, user, CODES_AT_SET_UP)
        if secret is None:
            return Refused.NOT_SET_UP
        if secret.enabled_at is not None:
            return Refused.ALREADY_ENABLED
        step = self._step_of(secret, code)
        # The step counts as used: the code that enabled it does not sign in as well.
        if step is None or not await unit.mfa.enable(user, step, self._clock.now()):
            return Refused.WRONG_CODE
        return None

    async def _redeem_step(self, unit: UnitOfWork, secret: MfaSecret, code: str) -> Refused | None:
        step = self._step_of(secret, code)
        if step is None:
            return Refused.WRONG_CODE
        return None if await unit.mfa.redeem_step(secret.user, step) else Refused.USED_CODE

    async def _redeem_backup_code(self, unit: UnitOfWork, user: UserId, code: str) -> Refused | None:
        bare = backup_code(code)
        if bare is None:
            return Refused.WRONG_CODE
        digest = await self._backup_codes.digest(user, bare)
        # Found by its digest under a key that nobody knows: how long that takes tells nothing about a code.
        return None if await unit.mfa.redeem_backup_code(user, digest, self._clock.now()) else Refused.WRONG_CODE

    def _step_of(self, secret: MfaSecret, code: str) -> int | None:
        bare = time_based_code(code)
        if bare is None:
            return None
        opened = self._keyring.open(secret.sealed_secret, sealing_context(secret.user))
        return self._totp.step_of(Secret(opened.decode()), bare, self._clock.now())

    async def _new_backup_codes(self, user: UserId) -> tuple[Sequence[Secret], Sequence[bytes]]:
        """As they are shown, and as they are kept. Before any unit of work."""
        codes = self._backup_codes.new()
        return codes, [await self._backup_codes.digest(user, backup_code(code.reveal()) or "") for code in codes]

    @staticmethod
    async def _log_check(unit: UnitOfWork, user: UserId, actor: Actor, refused: Refused | None) -> None:
        await unit.mfa.log(MfaEvent.VERIFY_ATTEMPT, user, actor, success=refused is None)
        if refused is None:
            await unit.mfa.log(MfaEvent.VERIFY_SUCCESS, user, actor, success=True)
        else:
            await unit.mfa.log(MfaEvent.VERIFY_FAILED, user, actor, success=False, details={"reason": refused.value})

    @staticmethod
    async def _changed(
        unit: UnitOfWork,
        user: UserId,
        actor: Actor,
        what: str,
        *,
        organization: OrganizationId | None = None,
        details: Mapping[str, Json] | None = None,
        personal: Mapping[str, str] | None = None,
    ) -> None:
        await unit.devices.end_trust(user)
        target = Target("user", str(user))
        # One name for webhooks, one for the audit log: the interface has both.
        event = Event(f"user.mfa.{what}", actor, target, organization, details or {}, audited=False, personal=personal or {})
        await unit.record(event)
        await unit.record(replace(event, name=f"security.mfa.{what}", audited=True, published=False))

    def _mail(self, template: str, to: Email, actor: Actor) -> Mail:
        return self._templates.mail(template, to.address, when=self._clock.now(), address=actor.address)


_EXPLAINED: Mapping[Refused, str] = {
    Refused.NOT_SET_UP: "MFA is not set up",
    Refused.NOT_ENABLED: "MFA is not enabled",
    Refused.ALREADY_ENABLED: "MFA is already enabled",
    Refused.WRONG_CODE: "The code is not valid",
}
