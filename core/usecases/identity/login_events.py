"""Login events: one row and one event for every attempt to sign in, and the mail about a sign-in that may not be the account owner's."""

from collections.abc import Sequence

from core.domain.identifiers import LoginEventId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.devices import Client, Remembered
from core.domain.identity.guards.guesses import FailedGuess
from core.domain.identity.guards.hook_verdicts import HookSaid
from core.domain.identity.login_events import LoginEvent, LoginFailure, OwnLogin, login_event, login_tried
from core.domain.identity.risk import Approach, Knowledge, Sighting
from core.domain.identity.risk_policies.policies import Decided
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import NamedAccount, is_unusual
from core.domain.record.events import Actor
from core.frozen import Frozen, replace
from core.usecases.identity.devices import Devices
from ports.identity.sign_in import LoginEventStore
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class LoginOutcome(Frozen, kw_only=True):
    """How an attempt to sign in went."""

    user: UserId | None
    provider: str
    failure: LoginFailure | None
    approach: Approach
    sighting: Sighting | None = None
    remembered: Remembered | None = None
    flagged: bool = False
    context: Context = PLATFORM
    decision: Decided | None = None
    by_installation: Decided | None = None
    """The rule of the installation that decided."""


class LoginEvents(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: LoginEventStore
    devices: Devices
    templates: MailTemplates
    metrics: Metrics
    system: System

    async def list_own(self, user: UserId, before: LoginEventId | None, limit: int) -> Sequence[OwnLogin]:
        """Returns the attempts to sign in to this account, newest first, including failed attempts. With `before`, only older attempts."""
        listed = await self.lookup.list_own(user, before, limit)
        return [one if one.device_name else replace(one, device_name=await self.devices.called(one.event.user_agent)) for one in listed]

    async def log(self, uow: UnitOfWork, outcome: LoginOutcome) -> LoginEvent:
        """Adds the attempt within the caller's unit of work, without a round trip of its own. Returns it as it is logged."""
        approach, sighting = outcome.approach, outcome.sighting
        actor = approach.client.actor(outcome.user if outcome.failure is None else None)
        device = outcome.remembered.device if outcome.remembered is not None else None if sighting is None else sighting.device
        tried = login_event(
            LoginEventId(self.system.ids.new()),
            actor,
            self.system.clock.now(),
            user=outcome.user,
            provider=outcome.provider,
            context=outcome.context,
            failure=outcome.failure,
        )
        event = replace(
            tried,
            device=device,
            risk_score=0.0 if sighting is None else sighting.risk.score,
            risk_factors=() if sighting is None else tuple(factor.value for factor in sighting.risk.factors),
            flagged=outcome.flagged,
            country=None if approach.location is None else approach.location.country,
            city=None if approach.location is None else approach.location.city,
            spot=None if approach.location is None else approach.location.spot,
            decision=None
            if outcome.decision is None or outcome.decision.organization != outcome.context.organization
            else outcome.decision,
        )
        await uow.login_events.add(event, outcome.by_installation)
        # The event is recorded even when no account has the address: otherwise an observer could measure that one row is missing.
        await uow.record(login_tried(event, actor))
        return event

    async def log_failure(
        self,
        failure: LoginFailure,
        provider: str,
        named: NamedAccount | None,
        approach: Approach,
        context: Context = PLATFORM,
        *,
        decision: Decided | None = None,
        by_installation: Decided | None = None,
        guess: FailedGuess | None = None,
    ) -> None:
        """Logs a failure in a unit of work of its own, because a refusal follows. `guess` is counted in the same statement."""
        user, sighting = None, None
        if named is not None:
            user, sighting = named.account.id, self.devices.judge(approach, named.knowledge)
        told = audience(context, may_know_of_failures=named is not None and named.may_know_of_failures)
        outcome = LoginOutcome(
            user=user,
            provider=provider,
            failure=failure,
            approach=approach,
            sighting=sighting,
            context=told,
            decision=decision,
            by_installation=by_installation,
        )
        async with self.unit_of_work() as uow:
            if guess is not None:
                await uow.guesses.count(guess)
            await self.log(uow, outcome)
            await uow.commit()
        self.metrics.login_failed(failure.value)

    async def log_wrong_code(self, uow: UnitOfWork, user: UserId, provider: str, sighting: Sighting, context: Context = PLATFORM) -> None:
        """Logs a wrong code and commits the unit of work, so it is the last step: a guess that is rolled back would not count."""
        failure = LoginFailure.WRONG_CODE
        outcome = LoginOutcome(
            user=user, provider=provider, failure=failure, approach=sighting.approach, sighting=sighting, context=context
        )
        await self.log(uow, outcome)
        await uow.commit()
        self.metrics.login_failed(failure.value)

    async def log_refused_visit(
        self,
        failure: LoginFailure,
        user: UserId,
        provider: str,
        client: Client | None,
        application: Context,
        *,
        refusals: Sequence[HookSaid] = (),
    ) -> None:
        """Logs that the application, or a hook, did not admit somebody who has signed in. The log of its organization gets the visits of
        the people whose failures it may know of; the person's own log gets each. No `client`: what goes on from a session has neither
        address nor device there. `refusals`: what hooks said of it. Nobody reads it in the log.
        """
        actor, now = Actor(user) if client is None else client.actor(user), self.system.clock.now()
        async with self.unit_of_work() as uow:
            told = audience(application, may_know_of_failures=await uow.sign_ins.is_known_to(user, application))
            id_ = LoginEventId(self.system.ids.new())
            await uow.login_events.add(login_event(id_, actor, now, user=user, provider=provider, context=told, failure=failure))
            if refusals:
                await uow.hooks.keep_refusals(id_, refusals)
            await uow.commit()

    async def warn_owner(
        self,
        uow: UnitOfWork,
        account: Account,
        knowledge: Knowledge,
        sighting: Sighting,
        *,
        mfa_enabled: bool,
        asked_for: bool = False,
    ) -> None:
        """Mails the owner of the account about a sign-in that may be a stranger's. `asked_for`: a rule for risk tells them of this one."""
        template = warning(knowledge, sighting, mfa_enabled=mfa_enabled) or ("unusual_sign_in" if asked_for else None)
        if template is None:
            return
        approach = sighting.approach
        location = approach.location
        mail = self.templates.mail(
            template,
            account.email.address,
            account=account.id,
            language=account.language or approach.client.language,
            when=self.system.clock.now(),
            address=approach.client.address,
            device=approach.agent.name,
            location=None if location is None else ", ".join(filter(None, (location.city, location.country))),
        )
        await uow.jobs.add(mail.as_job())


def warning(knowledge: Knowledge, sighting: Sighting, *, mfa_enabled: bool) -> str | None:
    """Returns the template of the mail that this sign-in calls for, or None when it calls for no mail."""
    if is_unusual(sighting, mfa_enabled=mfa_enabled):
        return "unusual_sign_in"
    # The very first sign-in also comes from a new device, but its owner needs no mail about it.
    return "new_device" if sighting.device is None and knowledge.sign_ins > 0 else None


def audience(context: Context, *, may_know_of_failures: bool) -> Context:
    """Returns the context whose log gets a failed attempt. An organization sees only attempts of its members by their own act, and of
    people who have signed in there. Otherwise an organization could list anyone, try to sign in at its own page with this person's address,
    and learn how this person signs in elsewhere.
    """
    return context if may_know_of_failures else PLATFORM
