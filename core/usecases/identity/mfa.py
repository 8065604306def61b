"""MFA by authenticator app and backup codes: set up, enabled with a first code, verified at sign-in, disabled."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from core.domain.errors import BadRequest, RateLimited, Unauthorized
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.mfa import (
    CODES_AT_SET_UP,
    CODES_AT_SIGN_IN,
    CodesShown,
    Guess,
    MfaEvent,
    MfaMethod,
    MfaSecret,
    Refused,
    SecondFactorStatus,
    SetUp,
    backup_code,
    is_recent,
    may_be_shown,
    sealing_context,
    time_based_code,
)
from core.domain.identity.proofs import Proved
from core.domain.languages import Language
from core.domain.mail import Email, Mail
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Secret
from core.frozen import Frozen, replace
from core.usecases.identity.account_endings import require_living
from ports.crypto import KeyRing
from ports.identity.sign_in import BackupCodeMaker, MfaStore, Totp
from ports.mail import MailTemplates
from ports.system import Clock
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Mfa(Frozen):
    """`throttles`: whether guesses at codes are limited per account.

    Every change of the second factor ends the trust in devices, because that trust rests on the second factor.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: MfaStore
    totp: Totp
    backup_codes: BackupCodeMaker
    keyring: KeyRing
    templates: MailTemplates
    clock: Clock
    throttles: bool = True

    async def status(self, user: UserId) -> SecondFactorStatus:
        return await self.lookup.status(user)

    async def set_up(self, caller: Caller, actor: Actor, *, proved: bool = False) -> SetUp:
        """Makes a new secret, which a code in the same session confirms. The new secret replaces an unconfirmed one. Raises `BadRequest`
        when an authenticator is enabled, and `BesidePasskeys` when the person's second factor is passkeys, unless the person has `proved`
        it lately.
        """
        secret = self.totp.new_secret()
        shown = await self._shown(secret, caller)
        sealed = self.keyring.seal(secret.reveal().encode(), sealing_context(caller.user))
        async with self.unit_of_work() as uow:
            stored = await uow.mfa.put_pending(caller.user, caller.session, sealed, self.clock.now(), beside_passkeys=proved)
            if not stored and not await self._has_authenticator(uow, caller.user):
                if not await uow.accounts.find_all({caller.user}):
                    raise Unauthorized("The session has ended", words="session_ended")
                raise BesidePasskeys
            if stored:
                await uow.mfa.log(MfaEvent.SETUP_INITIATED, caller.user, actor, success=True)
            else:
                await uow.mfa.log(
                    MfaEvent.SETUP_FAILED, caller.user, actor, success=False, details={"reason": Refused.ALREADY_ENABLED.value}
                )
            await uow.commit()
        if not stored:
            raise _refusal(Refused.ALREADY_ENABLED)
        return shown

    async def pending(self, caller: Caller) -> SetUp | None:
        """Returns the secret of a set-up that this session began a moment ago, for a page that is loaded again. None when there is no
        set-up, or when the set-up is too old to be shown.
        """
        found = await self.lookup.find(caller.user)
        if found is None or not found.awaits_code_in(caller.session) or not may_be_shown(found.created_at, self.clock.now()):
            return None
        opened = self.keyring.open(found.sealed_secret, sealing_context(caller.user))
        return await self._shown(Secret(opened.decode()), caller)

    async def has_made_codes(self, caller: Caller, form: UUID) -> bool:
        """Whether the person's backup codes are those that this form has just made in this session. False when a code has been used, the
        codes were replaced, or they were made too long ago.
        """
        if not is_recent(form, self.clock.now()):
            return False
        _, digests = await self._new_backup_codes(caller, form)
        return await self.lookup.has_codes(caller.user, digests)

    async def show_codes(self, caller: Caller, actor: Actor, form: UUID) -> Sequence[Secret] | None:
        """Returns the backup codes that this form has just made in this session: the first time, and never again. None when there are none,
        as `has_made_codes` says. Raises `CodesShown` afterwards, and `Unauthorized` when the session has ended.
        """
        if not is_recent(form, self.clock.now()):
            return None
        codes, digests = await self._new_backup_codes(caller, form)
        async with self.unit_of_work() as uow:
            # Of several requests at once, the account's lock lets one be the first.
            await uow.accounts.hold(caller.user)
            await require_living(uow, caller.session)
            if not await uow.mfa.has_codes(caller.user, digests):
                return None
            if await uow.mfa.were_shown(caller.user, form):
                raise CodesShown
            await uow.mfa.log(MfaEvent.BACKUP_CODES_SHOWN, caller.user, actor, success=True, details={"form": str(form)})
            await uow.commit()
        return codes

    async def enable(self, caller: Caller, actor: Actor, code: str, form: UUID | None = None, *, proved: bool = False) -> Sequence[Secret]:
        """A first code proves that the authenticator has the secret. Returns the backup codes, which are shown only once. With a `form`,
        the page that follows the form shows them in place of the answer: see `show_codes`.

        Raises `BadRequest` when MFA is not set up in this session, is already enabled, or the code is wrong; `RateLimited` after too many
        codes; `BesidePasskeys` as `set_up` does; and `Unauthorized` when the session has ended.
        """
        codes, digests = await self._new_backup_codes(caller, form)
        async with self.unit_of_work() as uow:
            # The rows of the codes refer to the account, so the account is held before the secret: the deletion of an account takes the two
            # in this order.
            await uow.accounts.hold(caller.user)
            await require_living(uow, caller.session)
            now = self.clock.now()
            refused = await self._try_to_enable(uow, caller, code, now, proved=proved)
            await self._log_check(uow, caller.user, actor, refused)
            if refused is None:
                await uow.mfa.replace_backup_codes(caller.user, digests)
                for event in (MfaEvent.SETUP_COMPLETED, MfaEvent.ENABLED, MfaEvent.BACKUP_CODES_GENERATED):
                    await uow.mfa.log(event, caller.user, actor, success=True)
                await self._changed(uow, caller.user, actor, enabled=True, organization=caller.organization_id)
                # The proof lets this session go on to the backup codes, or disable MFA again. It allows nothing else: see
                # domain/identity/proofs.py.
                await uow.sessions.prove(caller.session, caller.user, Proved(second_factor_at=now))
                mail = self._mail("mfa_enabled", caller.user, caller.email, caller.language, actor, by_passkeys=False)
                await uow.jobs.add(mail.as_job())
            else:
                await uow.mfa.log(MfaEvent.SETUP_FAILED, caller.user, actor, success=False, details={"reason": refused.value})
            # The commit comes in both cases: a guess that is not recorded would not count.
            await uow.commit()
        if refused is not None:
            raise _refusal(refused)
        return codes

    async def enable_by_passkeys(self, caller: Caller, actor: Actor, form: UUID | None = None) -> Sequence[Secret]:
        """From now on one of the person's passkeys is asked for after the password. Returns the backup codes, as `enable` does. The caller
        has a fresh proof: a stranger who has only found an open session must not get backup codes. Raises `BadRequest` when the person has
        no passkey, or a second factor already, and `Unauthorized` when the session has ended.
        """
        codes, digests = await self._new_backup_codes(caller, form)
        user, now = caller.user, self.clock.now()
        async with self.unit_of_work() as uow:
            # Held, so that nobody removes the last passkey before the codes are stored.
            await uow.accounts.hold(user)
            await require_living(uow, caller.session)
            if not await uow.passkeys.become_second_factor(user, now):
                raise _refusal(Refused.ALREADY_ENABLED if await uow.mfa.is_enabled(user) else Refused.NO_PASSKEY)
            await uow.mfa.replace_backup_codes(user, digests)
            for event in (MfaEvent.ENABLED, MfaEvent.BACKUP_CODES_GENERATED):
                await uow.mfa.log(event, user, actor, success=True)
            await self._changed(uow, user, actor, enabled=True, organization=caller.organization_id)
            mail = self._mail("mfa_enabled", caller.user, caller.email, caller.language, actor, by_passkeys=True)
            await uow.jobs.add(mail.as_job())
            await uow.commit()
        return codes

    async def disable(self, caller: Caller, actor: Actor) -> None:
        """Deletes the secret, the codes and a pending set-up. Passkeys stay, but are no longer asked for as a second factor. May be
        repeated. Raises `Unauthorized` when the session has ended.
        """
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(caller.user)
            await require_living(uow, caller.session)
            await self.end(uow, caller, actor)
            await uow.commit()

    async def end(self, uow: UnitOfWork, caller: Caller, actor: Actor) -> None:
        """Does what `disable` does, within the caller's unit of work."""
        if await uow.mfa.disable(caller.user):
            await uow.mfa.log(MfaEvent.DISABLED, caller.user, actor, success=True)
            await self._changed(uow, caller.user, actor, enabled=False, organization=caller.organization_id)
            await uow.jobs.add(self._mail("mfa_disabled", caller.user, caller.email, caller.language, actor).as_job())

    async def force_disable(
        self, user: UserId, email: Email, actor: Actor, reason: str, operator: str = "", *, language: Language | None = None
    ) -> bool:
        """Disables the second factor of a person who has lost it. The caller has checked the permission for this. Returns False when the
        second factor was not enabled. `operator` is the name that an operator uses on the command line.
        """
        async with self.unit_of_work() as uow:
            disabled = await self.force_end(uow, user, email, actor, reason=reason, operator=operator, language=language)
            await uow.commit()
        return disabled

    async def force_end(
        self,
        uow: UnitOfWork,
        user: UserId,
        email: Email,
        actor: Actor,
        *,
        reason: str,
        operator: str = "",
        language: Language | None = None,
        organization: OrganizationId | None = None,
    ) -> bool:
        """Does what `force_disable` does, within the caller's unit of work. `organization` is the organization whose member acts."""
        if not await uow.mfa.disable(user):
            return False
        # The reason and the operator's name are personal data, so it must be possible to forget them.
        personal = {"reason": reason, **({"operator": operator} if operator else {})}
        await uow.mfa.log(MfaEvent.FORCE_DISABLED, user, actor, success=True, details={"reason": reason})
        await self._changed(uow, user, actor, enabled=False, organization=organization, details={"forced": True}, personal=personal)
        await uow.jobs.add(self._mail("mfa_disabled", user, email, language, actor).as_job())
        return True

    async def renew_backup_codes(self, caller: Caller, actor: Actor, form: UUID | None = None) -> Sequence[Secret]:
        """Replaces all earlier codes, used or not, and tells the person by mail. Returns the new codes, which are shown only once: with a
        `form`, on the page after it. Raises `BadRequest` when MFA is not enabled, and `Unauthorized` when the session has ended.
        """
        codes, digests = await self._new_backup_codes(caller, form)
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(caller.user)
            await require_living(uow, caller.session)
            # Held, so that nobody disables it before the codes are stored.
            if not await uow.mfa.hold(caller.user):
                raise _refusal(Refused.NOT_ENABLED)
            await uow.mfa.replace_backup_codes(caller.user, digests)
            await uow.mfa.log(MfaEvent.BACKUP_CODES_GENERATED, caller.user, actor, success=True)
            await uow.devices.end_trust(caller.user)
            target = Target("user", str(caller.user))
            await uow.record(Event("security.mfa.backup_codes_generated", actor, target, caller.organization_id))
            await uow.jobs.add(self._mail("backup_codes_renewed", caller.user, caller.email, caller.language, actor).as_job())
            await uow.commit()
        return codes

    async def prepare(self) -> None:
        """Loads what `check` needs besides its unit of work. Call it before entering the unit of work, so that no check waits for a second
        connection while it holds one.
        """
        await self.backup_codes.prepare()

    async def check(
        self, uow: UnitOfWork, user: UserId, code: str, actor: Actor, client: Client | None = None, *, limit: RateLimit = CODES_AT_SIGN_IN
    ) -> MfaMethod | None:
        """Redeems a code. Returns None when the code is wrong or was used before. The caller commits even then, or the guess would not
        count.

        Raises `RateLimited` after too many codes for this person, from all addresses together, or from this device if it is a trusted one.
        """
        guess = await self._guess(uow, user, limit, client)
        secret = guess.secret
        method = MfaMethod.BACKUP_CODE if time_based_code(code) is None else MfaMethod.TOTP
        if not guess.enabled:
            refused: Refused | None = Refused.NOT_ENABLED
        elif method is MfaMethod.BACKUP_CODE:
            refused = await self._redeem_backup_code(uow, user, code)
        elif secret is None or secret.enabled_at is None:
            # Passkeys alone are the second factor.
            refused = Refused.WRONG_CODE
        else:
            refused = await self._redeem_step(uow, secret, code)
        await self._log_check(uow, user, actor, refused)
        if refused is not None:
            return None
        if method is MfaMethod.BACKUP_CODE:
            await uow.mfa.log(MfaEvent.BACKUP_CODE_USED, user, actor, success=True)
        return method

    async def log_passkey(self, uow: UnitOfWork, user: UserId, actor: Actor) -> None:
        """Records that a passkey was the second factor."""
        await self._log_check(uow, user, actor, None)

    @staticmethod
    async def _has_authenticator(uow: UnitOfWork, user: UserId) -> bool:
        secret = await uow.mfa.find(user)
        return secret is not None and secret.enabled_at is not None

    async def _guess(self, uow: UnitOfWork, user: UserId, limit: RateLimit, client: Client | None = None) -> Guess:
        guess = await uow.mfa.begin_guess(user, limit, client)
        if self.throttles and guess.wait > 0:
            raise RateLimited(retry_after=guess.wait, detail=limit.name)
        return guess

    async def _try_to_enable(self, uow: UnitOfWork, caller: Caller, code: str, now: datetime, *, proved: bool) -> Refused | None:
        guess = await self._guess(uow, caller.user, CODES_AT_SET_UP)
        secret = guess.secret
        if secret is None:
            return Refused.NOT_SET_UP
        if secret.enabled_at is not None:
            return Refused.ALREADY_ENABLED
        if not secret.awaits_code_in(caller.session):
            return Refused.NOT_SET_UP
        if guess.enabled and not proved:
            raise BesidePasskeys
        step = self._step_of(secret, code)
        # The code's time step counts as used: the code that enabled MFA must not sign in as well.
        if step is None or not await uow.mfa.enable(caller.user, step, now, beside_passkeys=proved):
            return Refused.WRONG_CODE
        return None

    async def _redeem_step(self, uow: UnitOfWork, secret: MfaSecret, code: str) -> Refused | None:
        step = self._step_of(secret, code)
        if step is None:
            return Refused.WRONG_CODE
        return None if await uow.mfa.redeem_step(secret.user, step) else Refused.USED_CODE

    async def _redeem_backup_code(self, uow: UnitOfWork, user: UserId, code: str) -> Refused | None:
        bare = backup_code(code)
        if bare is None:
            return Refused.WRONG_CODE
        digest = await self.backup_codes.digest(user, bare)
        # The code is looked up by its digest under a secret key, so the time of the look-up tells nothing about a code.
        return None if await uow.mfa.redeem_backup_code(user, digest, self.clock.now()) else Refused.WRONG_CODE

    def _step_of(self, secret: MfaSecret, code: str) -> int | None:
        bare = time_based_code(code)
        if bare is None:
            return None
        opened = self.keyring.open(secret.sealed_secret, sealing_context(secret.user))
        return self.totp.step_of(Secret(opened.decode()), bare, self.clock.now())

    async def _shown(self, secret: Secret, caller: Caller) -> SetUp:
        uri = self.totp.uri(secret, caller.email.address)
        return SetUp(secret, uri, await self.totp.qr_code(uri))

    async def _new_backup_codes(self, caller: Caller, form: UUID | None) -> tuple[Sequence[Secret], Sequence[bytes]]:
        """Makes backup codes. Returns the codes as people see them, and as the database stores them. Call it before any unit of work."""
        if form is not None and is_recent(form, self.clock.now()):
            codes = await self.backup_codes.derived(caller.user, f"{caller.session} {form}")
        else:
            codes = self.backup_codes.new()
        return codes, [await self.backup_codes.digest(caller.user, backup_code(code.reveal()) or "") for code in codes]

    @staticmethod
    async def _log_check(uow: UnitOfWork, user: UserId, actor: Actor, refused: Refused | None) -> None:
        await uow.mfa.log(MfaEvent.VERIFY_ATTEMPT, user, actor, success=refused is None)
        if refused is None:
            await uow.mfa.log(MfaEvent.VERIFY_SUCCESS, user, actor, success=True)
        else:
            await uow.mfa.log(MfaEvent.VERIFY_FAILED, user, actor, success=False, details={"reason": refused.value})

    @staticmethod
    async def _changed(
        uow: UnitOfWork,
        user: UserId,
        actor: Actor,
        *,
        enabled: bool,
        organization: OrganizationId | None = None,
        details: Mapping[str, Json] | None = None,
        personal: Mapping[str, str] | None = None,
    ) -> None:
        await uow.devices.end_trust(user)
        target = Target("user", str(user))
        # The API specification has one name for the act itself, and another one for the logs.
        act, entry = ("user.mfa.enabled", "security.mfa.enabled") if enabled else ("user.mfa.disabled", "security.mfa.disabled")
        event = Event(act, actor, target, organization, details or {}, personal=personal or {})
        if organization is None:
            # The change belongs to no single organization, so the event goes to every organization that the person is a member of.
            await uow.record_in_every_log(event, user)
        else:
            await uow.record(event)
        await uow.record_in_every_log(replace(event, name=entry), user)

    def _mail(
        self, template: str, user: UserId, to: Email, language: Language | None, actor: Actor, *, by_passkeys: bool | None = None
    ) -> Mail:
        return self.templates.mail(
            template,
            to.address,
            account=user,
            language=language or actor.language,
            when=self.clock.now(),
            address=actor.address,
            by_passkeys=by_passkeys,
        )


class BesidePasskeys(Exception):
    """An authenticator app would be added to passkeys that are the second factor already, perhaps only since the caller's proof was
    checked. A stranger must not add a second factor beside the owner's, so the proof is checked again.
    """


def _refusal(refused: Refused) -> BadRequest:
    match refused:
        case Refused.NOT_SET_UP:
            return BadRequest("MFA is not set up: set it up first", words="second_factor_not_set_up")
        case Refused.NOT_ENABLED:
            return BadRequest("MFA is not enabled", words="second_factor_not_enabled")
        case Refused.ALREADY_ENABLED:
            return BadRequest("MFA is already enabled", words="second_factor_enabled")
        case Refused.NO_PASSKEY:
            return BadRequest("You have no passkey: add one first", words="passkey_first")
        case _:
            return BadRequest("The code is not valid", words="wrong_code")
