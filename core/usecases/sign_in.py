"""Signing in: a password, and a second factor where there is one.

Everybody who is turned away has cost the same work: one look-up, one hash, one write. Nobody is told why before they have shown the right
password.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from core.domain.accounts import LONGEST_PASSWORD
from core.domain.devices import Approach, Client, Knowledge, Remembered, Sighting
from core.domain.email import Email
from core.domain.errors import BadRequest, NotFound, OrganizationNotActive, Overloaded, RateLimited, TokenInvalid, Unauthorized
from core.domain.identifiers import LoginEventId, PreauthenticationId, UserId
from core.domain.login_events import LoginEvent, LoginFailure
from core.domain.mfa import PREAUTHENTICATION_LIFETIME, MfaMethod, Preauthentication
from core.domain.secrets import Password, Token
from core.domain.sessions import PLATFORM, Context, OpenedSession, TokenUse
from core.domain.sign_in import (
    PASSWORD_PROVIDER,
    Alone,
    Applicant,
    AwaitingSecondFactor,
    Confirmed,
    ServiceName,
    SignedIn,
    Tries,
    context_in,
    failure_of,
    is_unusual,
    login_tried,
    methods,
    open_context,
    preauthentication_claims,
)
from core.usecases.devices import Devices
from core.usecases.mfa import Mfa
from core.usecases.sessions import Sessions
from ports.clock import Clock
from ports.ids import Ids
from ports.mail_templates import MailTemplates
from ports.metrics import Metrics
from ports.passwords import PasswordHasher
from ports.sign_in import Applications
from ports.tokens import TokenSigner, TokenVerifier
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How a sign-in went, for the row that is kept of it."""

    user: UserId | None
    failure: LoginFailure | None
    approach: Approach
    sighting: Sighting | None = None
    remembered: Remembered | None = None
    flagged: bool = False
    context: Context = PLATFORM


@dataclass(frozen=True, slots=True)
class _Passed:
    """The password was right, and is still in force under this hash. `renewed` is to take its place, if it is outdated."""

    applicant: Applicant
    encoded: str
    renewed: str | None
    sighting: Sighting
    tries: Tries
    context: Context


class SignIn:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        applications: Applications,
        passwords: PasswordHasher,
        *,
        devices: Devices,
        mfa: Mfa,
        sessions: Sessions,
        templates: MailTemplates,
        signer: TokenSigner,
        verifier: TokenVerifier,
        metrics: Metrics,
        clock: Clock,
        ids: Ids,
        issuer: str,
        throttles: bool,
    ) -> None:
        """`throttles`: whether tries are limited by account."""
        self._unit_of_work = unit_of_work
        self._applications = applications
        self._passwords = passwords
        self._devices = devices
        self._mfa = mfa
        self._sessions = sessions
        self._templates = templates
        self._signer = signer
        self._verifier = verifier
        self._metrics = metrics
        self._clock = clock
        self._ids = ids
        self._issuer = issuer
        self._throttles = throttles

    async def with_password(
        self, email: Email, password: Password, client: Client, service: ServiceName | None = None
    ) -> SignedIn | AwaitingSecondFactor:
        """On the platform, or in a service, whose user one becomes by it. Raises `BadRequest` for what cannot be a password, `NotFound` for
        a service that is none, `OrganizationNotActive`, `RateLimited` after too many tries, `Unauthorized` otherwise, and `Overloaded`
        when too many passwords wait to be checked.
        """
        _require_plausible(password)
        approach = await self._devices.observe(client)
        application = await self._applications.find(email, approach, service)
        applicant, tries = application.applicant, application.tries
        # First of all, so that it is the same for everybody's address.
        try:
            context = context_in(service, application.destination)
        except (NotFound, OrganizationNotActive):
            await self._give_back(tries)
            raise
        if self._throttles and tries.wait > 0:
            await self._fail(LoginFailure.THROTTLED, applicant, approach, context)
            raise RateLimited(retry_after=tries.wait, detail=tries.limit.name)
        encoded = None if applicant is None else applicant.encoded
        try:
            matches = await self._passwords.verify(encoded, password)
        except Overloaded:
            await self._give_back(tries)
            raise
        failure = failure_of(applicant, matches=matches)
        if failure is not None:
            await self._fail(failure, applicant, approach, context)
            raise Unauthorized(_EMAIL_NOT_VERIFIED if failure is LoginFailure.EMAIL_NOT_VERIFIED else _WRONG)
        assert applicant is not None and encoded is not None  # noqa: S101, PT018 - for the type checker: nobody else got here
        sighting = self._devices.judge(approach, applicant.knowledge)
        passed = _Passed(applicant, encoded, await self._renewed(encoded, password), sighting, tries, context)
        if applicant.mfa_enabled and not sighting.may_skip_second_factor:
            return await self._await_second_factor(passed)
        return await self._sign_in(passed)

    async def with_second_factor(self, preauth_token: Token, code: str, client: Client, *, trust_device: bool = False) -> SignedIn:
        """Exchange a pre-auth token and a code, once, for a session where the password was given. Raises `Unauthorized`, `TokenExpired` or
        `TokenInvalid` for a token that is not good for it, or no longer, `OrganizationNotActive`, `Unauthorized` for a wrong code, of which
        the fifth ends the pre-auth token, and `RateLimited` after too many.
        """
        preauthentication_id, user = await self._read(preauth_token)
        approach = await self._devices.observe(client)
        await self._mfa.prepare()
        async with self._unit_of_work() as unit:
            awaiting = await unit.mfa.find_preauthentication(preauthentication_id)
            if awaiting is None or awaiting.user != user:
                raise Unauthorized(_SIGN_IN_AGAIN)
            confirmed = await unit.sign_ins.confirm_since(user, awaiting.created_at, awaiting.service)
            if confirmed is None:
                raise Unauthorized(_SIGN_IN_AGAIN)
            context = _context_of(awaiting, confirmed)
            method = await self._mfa.check(unit, user, code, client.actor(user), client)
            knowledge = await unit.devices.knowledge(user, approach)
            sighting = self._devices.judge(approach, knowledge)
            if method is None:
                await unit.mfa.fail_preauthentication(preauthentication_id)
                shown_to = _shown_to(context, has_been_there=confirmed.has_been_there)
                await self._log(unit, _Outcome(user, LoginFailure.WRONG_CODE, approach, sighting, context=shown_to))
                await unit.commit()
                self._metrics.login_failed(LoginFailure.WRONG_CODE.value)
                raise Unauthorized("The code is not valid")
            if not await unit.mfa.consume_preauthentication(preauthentication_id, self._clock.now()):
                raise Unauthorized(_SIGN_IN_AGAIN)
            remembered = await self._devices.remember(unit, user, sighting, trust=trust_device)
            opened = await self._open(unit, confirmed, sighting, remembered, context=context, by=method, mfa_enabled=True)
            await self._tell(unit, confirmed.account.email, knowledge, sighting, remembered, mfa_enabled=True)
            await self._enter(unit, opened)
            await unit.commit()
        return SignedIn(await self._sessions.tokens(opened), remembered)

    async def require_preauthentication(self, preauth_token: Token) -> None:
        """Raises as `with_second_factor` does for a token that is none of ours, without looking it up."""
        await self._read(preauth_token)

    async def _sign_in(self, passed: _Passed) -> SignedIn:
        sighting, mfa_enabled = passed.sighting, passed.applicant.mfa_enabled
        async with self._unit_of_work() as unit:
            confirmed, context = await self._confirm(unit, passed, Alone(sighting.device))
            remembered = await self._devices.remember(unit, confirmed.account.id, sighting)
            opened = await self._open(unit, confirmed, sighting, remembered, context=context, by=None, mfa_enabled=mfa_enabled)
            await self._tell(unit, confirmed.account.email, passed.applicant.knowledge, sighting, remembered, mfa_enabled=mfa_enabled)
            await unit.sign_ins.give_back(passed.tries)
            await self._enter(unit, opened)
            await unit.commit()
        return SignedIn(await self._sessions.tokens(opened), remembered)

    async def _await_second_factor(self, passed: _Passed) -> AwaitingSecondFactor:
        now = self._clock.now()
        user = passed.applicant.account.id
        async with self._unit_of_work() as unit:
            _, context = await self._confirm(unit, passed, None)
            awaiting = Preauthentication(
                PreauthenticationId(self._ids.new()),
                user,
                passed.sighting.device,
                context.organization,
                created_at=now,
                expires_at=now + PREAUTHENTICATION_LIFETIME,
                service=context.service,
            )
            await unit.mfa.add_preauthentication(awaiting)
            await unit.sign_ins.give_back(passed.tries)
            await unit.commit()
        claims = preauthentication_claims(user, str(awaiting.id), issuer=self._issuer, now=now, expires_at=awaiting.expires_at)
        token = Token(await self._signer.sign_access(claims))
        return AwaitingSecondFactor(token, int(PREAUTHENTICATION_LIFETIME.total_seconds()))

    async def _confirm(self, unit: UnitOfWork, passed: _Passed, alone: Alone | None) -> tuple[Confirmed, Context]:
        """While the password was being checked it may have been changed, and all sessions ended: then this is none of the new ones. Or it
        has become too little, or the service has gone.
        """
        store, user, encoded, service = unit.sign_ins, passed.applicant.account.id, passed.encoded, passed.context.service
        if passed.renewed is None:
            confirmed = await store.confirm(user, encoded, alone, service)
        else:
            confirmed = await store.renew(user, encoded, passed.renewed, alone, service)
        if confirmed is None:
            raise Unauthorized(_WRONG, detail="the account changed while its password was checked")
        return confirmed, PLATFORM if service is None else open_context(confirmed.destination)

    async def _open(
        self,
        unit: UnitOfWork,
        confirmed: Confirmed,
        sighting: Sighting,
        remembered: Remembered,
        *,
        context: Context,
        by: MfaMethod | None,
        mfa_enabled: bool,
    ) -> OpenedSession:
        account = confirmed.account
        opened = await self._sessions.open(
            unit,
            account,
            device=remembered.device,
            authenticated_by=methods(by),
            context=context,
            subscription=confirmed.subscription,
        )
        flagged = is_unusual(sighting, mfa_enabled=mfa_enabled)
        await self._log(unit, _Outcome(account.id, None, sighting.approach, sighting, remembered, flagged, context))
        return opened

    async def _enter(self, unit: UnitOfWork, opened: OpenedSession) -> None:
        """Last of all, since newcomers to one service wait here for each other."""
        session = opened.session
        if session.context.service is not None:
            await unit.sign_ins.enter(session.user, session.context.service, session.created_at)

    async def _tell(
        self,
        unit: UnitOfWork,
        email: Email,
        knowledge: Knowledge,
        sighting: Sighting,
        remembered: Remembered,
        *,
        mfa_enabled: bool,
    ) -> None:
        """A mail to the owner about a sign-in that may not be theirs."""
        if is_unusual(sighting, mfa_enabled=mfa_enabled):
            template = "unusual_sign_in"
        elif remembered.is_new and knowledge.sign_ins > 0:
            # The first sign-in of all is from a new device too, and news to nobody.
            template = "new_device"
        else:
            return
        approach = sighting.approach
        location = approach.location
        mail = self._templates.mail(
            template,
            email.address,
            when=self._clock.now(),
            address=approach.client.address,
            device=approach.agent.name,
            location=None if location is None else ", ".join(filter(None, (location.city, location.country))),
        )
        await unit.jobs.add(mail.as_job())

    async def _renewed(self, encoded: str, password: Password) -> str | None:
        """The password under the parameters in force, when its hash has others. Not now, when too many passwords wait."""
        if not self._passwords.is_outdated(encoded):
            return None
        try:
            return await self._passwords.hash(password)
        except Overloaded:
            return None

    async def _give_back(self, tries: Tries) -> None:
        """Nothing was tried: whoever is told to come back shall find the door open."""
        if tries.wait > 0:
            # None was taken, and there must be no way to get one by asking for what is not there.
            return
        async with self._unit_of_work() as unit:
            await unit.sign_ins.give_back(tries)
            await unit.commit()

    async def _fail(self, failure: LoginFailure, applicant: Applicant | None, approach: Approach, context: Context) -> None:
        """Remembered in a unit of work of its own: what comes after it is a refusal."""
        user, sighting = None, None
        if applicant is not None:
            user, sighting = applicant.account.id, self._devices.judge(approach, applicant.knowledge)
        shown_to = _shown_to(context, has_been_there=applicant is not None and applicant.has_been_there)
        async with self._unit_of_work() as unit:
            await self._log(unit, _Outcome(user, failure, approach, sighting, context=shown_to))
            await unit.commit()
        self._metrics.login_failed(failure.value)

    async def _log(self, unit: UnitOfWork, outcome: _Outcome) -> None:
        approach, sighting = outcome.approach, outcome.sighting
        actor = approach.client.actor(outcome.user if outcome.failure is None else None)
        device = outcome.remembered.device if outcome.remembered is not None else None if sighting is None else sighting.device
        event = LoginEvent(
            id=LoginEventId(self._ids.new()),
            user=outcome.user,
            provider=PASSWORD_PROVIDER,
            failure=outcome.failure,
            address=actor.address,
            user_agent=actor.user_agent,
            created_at=self._clock.now(),
            organization=outcome.context.organization,
            service=outcome.context.service,
            device=device,
            risk_score=0.0 if sighting is None else sighting.risk.score,
            risk_factors=() if sighting is None else tuple(factor.value for factor in sighting.risk.factors),
            flagged=outcome.flagged,
            country=None if approach.location is None else approach.location.country,
            city=None if approach.location is None else approach.location.city,
        )
        await unit.login_events.add(event)
        # Also when nobody has the address: that one row less would be seen by whoever measures.
        await unit.record(login_tried(event, None if sighting is None else sighting.risk, actor))

    async def _read(self, preauth_token: Token) -> tuple[PreauthenticationId, UserId]:
        claims = await self._verifier.verify_access(preauth_token.reveal())
        if claims.get("token_use") != TokenUse.PREAUTHENTICATION.value:
            raise TokenInvalid(detail="token_use is not mfa_preauth")
        try:
            return PreauthenticationId(UUID(str(claims.get("jti")))), UserId(UUID(str(claims.get("sub"))))
        except ValueError:
            raise TokenInvalid(detail="jti or sub is not an id") from None


_WRONG: Final = "The e-mail address or the password is wrong"
_EMAIL_NOT_VERIFIED: Final = "The e-mail address is not verified"
_SIGN_IN_AGAIN: Final = "This sign-in is over: start again"


def _context_of(awaiting: Preauthentication, confirmed: Confirmed) -> Context:
    if awaiting.service is None:
        return PLATFORM
    if confirmed.destination is None:
        raise Unauthorized(_SIGN_IN_AGAIN, detail="the service has been deleted")
    return open_context(confirmed.destination)


def _shown_to(context: Context, *, has_been_there: bool) -> Context:
    """Who hears of a try that failed. An organization of those alone who have been there: it could make anybody a user, knock at its own
    door with their address, and would be told how they sign in elsewhere.
    """
    return context if has_been_there else PLATFORM


def _require_plausible(password: Password) -> None:
    text = password.reveal()
    if not text:
        raise BadRequest("password: must not be empty")
    if len(text) > LONGEST_PASSWORD:
        raise BadRequest(f"password: must have at most {LONGEST_PASSWORD} characters")
