"""Admission: from a verified authenticator to a session."""

from typing import Generic, Protocol, TypeVar

from core.domain.errors import Unauthorized
from core.domain.identifiers import DeviceId, FlowId, OrganizationId, PreauthenticationId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.devices import Client, Remembered
from core.domain.identity.guards.hook_verdicts import NO_HOOKS, AskingDoor, HookVerdict, service_door
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.mfa import PREAUTHENTICATION_LIFETIME, MfaMethod, Preauthentication
from core.domain.identity.proofs import ProofMethod, Proved
from core.domain.identity.risk import Approach, Knowledge, Sighting
from core.domain.identity.risk_policies.owner_mails import OwnerNotice
from core.domain.identity.risk_policies.policies import Decided, RiskAction
from core.domain.identity.risk_policies.shadow import way_of
from core.domain.identity.risk_policies.verdicts import Came, RefusedByRule, RiskVerdict, judge_sign_in
from core.domain.identity.sessions import NOT_JUDGED, PLATFORM, Context, Doors, told_at_login
from core.domain.identity.sign_in import (
    PASSWORD_PROVIDER,
    Confirmed,
    FamiliarAddresses,
    LastLook,
    NamedAccount,
    is_unusual,
    methods,
    open_context,
)
from core.domain.identity.terms import PendingTerms
from core.domain.identity.upstream.directory_visits import DirectoryFactor, DirectoryVisit
from core.frozen import Frozen, replace
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents, LoginOutcome, audience
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.risk import InstallationWayBack
from core.usecases.identity.sign_in.proofs.passkey import PasskeyProofs, UsedPasskey
from core.usecases.identity.sign_in.proofs.proof import Arrival, Overtaken, last_look
from ports.identity.sign_in import Joining, ProvidedFields, SignInHooks
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Arrived(Frozen, kw_only=True):
    """A person who may come in, and the proof for this."""

    confirmed: Confirmed
    context: Context
    log_place: Context
    """The place whose log gets the sign-in. A flow leads on to an application that its session is not of."""
    knowledge: Knowledge
    sighting: Sighting
    authenticated_by: tuple[str, ...]
    proved: Proved
    has_second_factor: bool
    provider: str
    """The way to sign in, as the log of sign-ins names it."""
    upstream: str = ""
    """The provider that vouched for the person, if one did: its key, or the id of an organization's own provider."""
    visit: DirectoryVisit | None = None
    """The visit to a directory by SAML, which the session remembers."""
    factor: DirectoryFactor | None = None
    """The second factor that the provider has stated. None after a second factor of ours, beside which it says nothing more."""
    doors: Doors = NOT_JUDGED
    """The organizations whose rules for risk let the sign-in in, and those that it stays out of."""
    decided: Decided | None = None
    """The rule for risk of the organization that decided."""
    by_installation: Decided | None = None
    """The rule for risk of the installation that decided."""
    heard: HookVerdict = NO_HOOKS
    """What hooks have said at the service that the session is for."""


Kept = TypeVar("Kept")
"""The credential that the person keeps, and continues the session with."""
_Kept_co = TypeVar("_Kept_co", covariant=True)


class Landing(Protocol[_Kept_co]):
    """The end of a sign-in, by kind of client. Methods that take a unit of work run within the admission's unit of work."""

    @property
    def leads_to(self) -> Context:
        """The application that the browser's flow leads to."""

    @property
    def may_know_of_failures(self) -> bool:
        """Whether the application's organization may know how a person signs in who owes the second factor in this flow."""

    @property
    def flow(self) -> FlowId | None:
        """The browser's flow. The admission checks that nobody has signed in by this flow yet."""

    @property
    def offers_passkey(self) -> bool:
        """Whether a page can offer a passkey after the sign-in."""

    async def open(self, uow: UnitOfWork, arrived: Arrived, device: DeviceId) -> _Kept_co: ...

    async def wait(self, uow: UnitOfWork, awaiting: Preauthentication) -> None:
        """Called when the person has to give a second factor first."""


class Admitted(Frozen, Generic[Kept]):
    kept: Kept
    remembered: Remembered
    terms: tuple[PendingTerms, ...] = ()
    """What the person has not accepted yet."""


class Admission(Frozen):
    """The last look, the device, the second factor and the log are the same wherever a sign-in ends."""

    unit_of_work: UnitOfWorkFactory
    devices: Devices
    mfa: Mfa
    passkeys: PasskeyProofs
    login_events: LoginEvents
    realms: HomeRealms
    joining: Joining
    provided: ProvidedFields
    familiar: FamiliarAddresses
    way_back: InstallationWayBack
    hooks: SignInHooks
    system: System

    async def admit(
        self, arrival: Arrival, sighting: Sighting, landing: Landing[Kept], *, insists: bool = False
    ) -> Admitted[Kept] | Preauthentication:
        """Lets the person in, or asks for the second factor. `insists`: a person who has a second factor must give it, even on a trusted
        device. Raises `Unauthorized` when the proof no longer holds; `FlowOver`; `NotFound` when the service is gone, and
        `OrganizationNotActive` when its organization is no longer active; and `ProviderRequired` when people of the person's domain have to
        sign in at another provider.
        """
        await self._welcome(arrival)
        may_ask = arrival.named.mfa_enabled and not arrival.proof.shows_two_factors
        try:
            if may_ask and (insists or not sighting.may_skip_second_factor):
                return await self._awaited(arrival, sighting, landing)
            admitted = await self._let_in_asking(arrival, sighting, landing, insists=insists, may_ask=may_ask)
            return admitted or await self._awaited(arrival, sighting, landing)
        except RefusedByRule as refused:
            place = landing.leads_to if arrival.context.service is None else arrival.context
            await self._log_refused(refused, arrival.proof.provider, arrival.named, arrival.approach, place)
            await self._offer_way_back(refused, arrival.named.account, arrival.approach)
            raise

    async def _awaited(self, arrival: Arrival, sighting: Sighting, landing: Landing[Kept]) -> Preauthentication:
        awaiting = await self._await_second_factor(arrival, sighting, landing)
        await self._keep_stated(arrival)
        return awaiting

    async def _let_in_asking(
        self, arrival: Arrival, sighting: Sighting, landing: Landing[Kept], *, insists: bool, may_ask: bool
    ) -> Admitted[Kept] | None:
        """None when a hook asks for a second factor which the person has. Hooks are asked between two units of work, of which the first has
        written nothing: the second looks at everything anew.
        """
        try:
            return await self._let_in_at_once(arrival, sighting, landing, insists=insists, may_ask=may_ask)
        except HooksToAsk as to_ask:
            heard = await self.hooks.ask(to_ask.door)
        if heard.owes is not None and heard.can_show and may_ask and heard.no is None and not heard.is_silent:
            return None
        heard.require_let_in()
        return await self._let_in_at_once(arrival, sighting, landing, insists=insists, may_ask=may_ask, heard=heard)

    async def _let_in_at_once(
        self,
        arrival: Arrival,
        sighting: Sighting,
        landing: Landing[Kept],
        *,
        insists: bool,
        may_ask: bool,
        heard: HookVerdict | None = None,
    ) -> Admitted[Kept] | None:
        """None when a rule for risk asks for a second factor after all, which the person has. Nothing is written then. Raises `HooksToAsk`
        where nobody has `heard` them yet.
        """
        proof, service = arrival.proof, arrival.context.service
        async with self.unit_of_work() as uow:
            device = None if insists else sighting.device
            confirmed = await arrival.last_look(
                uow,
                service=service,
                device=device,
                flow=landing.flow,
                organization=_entered(arrival.context, landing),
                # Behind a trusted device, the person would have to show the second factor first.
                offers_passkey=landing.offers_passkey and proof.provider == PASSWORD_PROVIDER and not arrival.named.mfa_enabled,
            )
            if not (confirmed.one_factor_is_enough or proof.shows_two_factors):
                raise Overtaken
            verdict = self._judged(arrival, confirmed, sighting, landing, shows_two_factors=proof.shows_two_factors)
            asks = verdict.insists or (verdict.owes is not None and verdict.owes.asks_for_factor)
            if may_ask and (asks or _has_way_back(verdict, confirmed.account)):
                return None
            _require_let_in(verdict)
            if confirmed.has_hooks and heard is None:
                raise HooksToAsk(_door(confirmed, open_context(confirmed.destination), proof.provider, proof.amr, sighting))
            if proof.word.provider:
                await uow.identities.own_membership(proof.word.provider, confirmed.account, proof.at)
            await proof.use(uow)
            application = audience(landing.leads_to, may_know_of_failures=arrival.named.may_know_of_failures)
            context = PLATFORM if service is None else open_context(confirmed.destination)
            arrived = Arrived(
                confirmed=confirmed,
                context=context,
                log_place=application if service is None else context,
                knowledge=arrival.named.knowledge,
                sighting=sighting,
                authenticated_by=proof.amr,
                proved=Proved(proof.at, proof.at if proof.shows_two_factors else None, proof.stated_at, proof.refuses_applications),
                has_second_factor=arrival.named.mfa_enabled or proof.shows_two_factors,
                provider=proof.provider,
                upstream=proof.word.provider,
                visit=proof.visit,
                factor=proof.factor,
                doors=_doors(verdict),
                decided=verdict.decided,
                by_installation=verdict.by_installation,
                heard=heard or NO_HOOKS,
            )
            admitted = await self.let_in(uow, arrived, landing)
            await uow.commit()
        await self._keep_stated(arrival)
        self.familiar.add(sighting.approach.client.address)
        return admitted

    async def admit_with_second_factor(
        self,
        preauthentication: PreauthenticationId,
        user: UserId,
        answer: str | UsedPasskey,
        client: Client,
        landing: Landing[Kept],
        *,
        trust_device: bool = False,
    ) -> Admitted[Kept]:
        """Lets the person in, once, to the place that the first proof was for. `answer` is a code, or the answer of one of the person's
        passkeys. Raises `SignInEnded`, `FlowOver`, `OrganizationNotActive`, `Unauthorized` for a wrong code (the fifth wrong code ends the
        sign-in), and `RateLimited` after too many.
        """
        approach = await self.devices.observe(client)
        await self.mfa.prepare()
        try:
            try:
                return await self._let_in_after(preauthentication, user, answer, approach, landing, trust_device=trust_device)
            except HooksToAsk as to_ask:
                heard = await self.hooks.ask(to_ask.door)
            heard.require_let_in()
            return await self._let_in_after(preauthentication, user, answer, approach, landing, trust_device=trust_device, heard=heard)
        except _RefusedAfter as after:
            await self._log_refused(after.refused, after.provider, after.named, approach, after.place)
            await self._offer_way_back(after.refused, after.named.account, approach)
            raise after.refused from None

    async def _let_in_after(
        self,
        preauthentication: PreauthenticationId,
        user: UserId,
        answer: str | UsedPasskey,
        approach: Approach,
        landing: Landing[Kept],
        *,
        trust_device: bool,
        heard: HookVerdict | None = None,
    ) -> Admitted[Kept]:
        """Raises `HooksToAsk` where nobody has `heard` them yet, before the code and the sign-in are used up."""
        client = approach.client
        async with self.unit_of_work() as uow:
            # The account is held before the pre-authentication: code that ends both takes them in this order.
            await uow.accounts.hold(user)
            awaiting = await uow.mfa.find_preauthentication(preauthentication)
            if awaiting is None or awaiting.user != user:
                raise SignInEnded
            look = LastLook(
                user=user,
                since=awaiting.created_at,
                service=awaiting.service,
                flow=landing.flow,
                organization=awaiting.organization or landing.leads_to.organization,
                offers_passkey=landing.offers_passkey and awaiting.provider == PASSWORD_PROVIDER,
            )
            confirmed = await last_look(uow, look, SignInEnded)
            if not awaiting.counts_for(confirmed.account):
                raise SignInEnded
            context = _context_of(awaiting, confirmed)
            log_place = (
                audience(landing.leads_to, may_know_of_failures=landing.may_know_of_failures) if awaiting.service is None else context
            )
            method = await self._checked(uow, user, answer, client)
            knowledge = await uow.devices.knowledge(user, approach)
            sighting = self.devices.judge(approach, knowledge)
            if method is None:
                await uow.mfa.fail_preauthentication(preauthentication)
                if awaiting.service is not None:
                    log_place = audience(context, may_know_of_failures=confirmed.may_know_of_failures)
                await self.login_events.log_wrong_code(uow, user, awaiting.provider, sighting, log_place)
                raise Unauthorized("The code is not valid", words="wrong_code")
            now = self.system.clock.now()
            came = Came(
                user=user,
                sighting=sighting,
                way=way_of(awaiting.provider),
                service=awaiting.service or landing.leads_to.service,
                shows_two_factors=True,
                shows_passkey=not isinstance(answer, str),
            )
            verdict = judge_sign_in(confirmed.rules_asked, look.organization, came, now)
            try:
                _require_let_in(verdict)
            except RefusedByRule as refused:
                place = landing.leads_to if awaiting.service is None else context
                known = landing.may_know_of_failures if awaiting.service is None else confirmed.may_know_of_failures
                named = NamedAccount(confirmed.account, None, True, knowledge, may_know_of_failures=known)
                raise _RefusedAfter(refused, awaiting.provider, named, place) from None
            if confirmed.has_hooks and heard is None:
                raise HooksToAsk(_door(confirmed, context, awaiting.provider, methods(awaiting.amr, method), sighting))
            if not await uow.mfa.consume_preauthentication(preauthentication, now):
                raise SignInEnded
            if awaiting.upstream:
                await uow.identities.own_membership(awaiting.upstream, confirmed.account, now)
            arrived = Arrived(
                confirmed=confirmed,
                context=context,
                log_place=log_place,
                knowledge=knowledge,
                sighting=sighting,
                authenticated_by=methods(awaiting.amr, method),
                proved=Proved(awaiting.created_at, now, awaiting.stated_at, awaiting.refuses_applications),
                has_second_factor=True,
                provider=awaiting.provider,
                upstream=awaiting.upstream,
                visit=awaiting.visit,
                doors=_doors(verdict),
                decided=verdict.decided,
                by_installation=verdict.by_installation,
                heard=heard or NO_HOOKS,
            )
            admitted = await self.let_in(uow, arrived, landing, trust_device=trust_device)
            await uow.commit()
        self.familiar.add(sighting.approach.client.address)
        return admitted

    async def let_in(self, uow: UnitOfWork, arrived: Arrived, landing: Landing[Kept], *, trust_device: bool = False) -> Admitted[Kept]:
        """Ends every sign-in, within the caller's unit of work and after the last look: writes the device, the session and the log."""
        account, sighting, context = arrived.confirmed.account, arrived.sighting, arrived.context
        remembered = await self.devices.remember(uow, account.id, sighting, trust=trust_device)
        kept = await landing.open(uow, arrived, remembered.device)
        outcome = LoginOutcome(
            user=account.id,
            provider=arrived.provider,
            failure=None,
            approach=sighting.approach,
            sighting=sighting,
            remembered=remembered,
            flagged=is_unusual(sighting, mfa_enabled=arrived.has_second_factor),
            context=arrived.log_place,
            decision=arrived.decided,
            by_installation=arrived.by_installation,
        )
        logged = await self.login_events.log(uow, outcome)
        for decided in (logged.decision, arrived.by_installation):
            if decided is not None and decided.action is RiskAction.TELL_OWNERS:
                await uow.jobs.add(OwnerNotice.of(logged.id, account.id, decided).as_job())
        asked_for = any(one is not None and one.action is RiskAction.TELL_PERSON for one in (arrived.decided, arrived.by_installation))
        await self.login_events.warn_owner(
            uow, account, arrived.knowledge, sighting, mfa_enabled=arrived.has_second_factor, asked_for=asked_for
        )
        if context.service is not None:
            now = self.system.clock.now()
            if arrived.confirmed.is_made_elsewhere:
                await uow.sign_ins.let_hold(account.id, context.service, arrived.authenticated_by, now)
            # This write comes last, because simultaneous newcomers to one service wait here for each other.
            await uow.sign_ins.enter(account.id, context.service, now)
        return Admitted(kept, remembered, arrived.confirmed.terms)

    def _judged(
        self, arrival: Arrival, confirmed: Confirmed, sighting: Sighting, landing: Landing[Kept], *, shows_two_factors: bool
    ) -> RiskVerdict:
        came = Came(
            user=arrival.named.account.id,
            sighting=sighting,
            way=way_of(arrival.proof.provider),
            service=arrival.context.service or landing.leads_to.service,
            shows_two_factors=shows_two_factors,
            shows_passkey=arrival.proof.method is ProofMethod.PASSKEY,
        )
        return judge_sign_in(confirmed.rules_asked, _entered(arrival.context, landing), came, self.system.clock.now())

    async def _log_refused(self, refused: RefusedByRule, provider: str, named: NamedAccount, approach: Approach, place: Context) -> None:
        verdict = refused.verdict
        await self.login_events.log_failure(
            LoginFailure.REFUSED_BY_RULE,
            provider,
            named,
            approach,
            place,
            decision=verdict.decided,
            by_installation=verdict.by_installation,
        )

    async def _offer_way_back(self, refused: RefusedByRule, account: Account, approach: Approach) -> None:
        """Whoever arrives here and has a way back has given every factor."""
        if _has_way_back(refused.verdict, account):
            await self.way_back.mail(account, approach.client.language)

    async def _keep_stated(self, arrival: Arrival) -> None:
        """The provider's word about its organization's fields. It comes after the sign-in, since a sign-in may make the membership."""
        stated = arrival.proof.stated
        if stated is not None:
            await self.provided.keep(arrival.named.account.id, stated.organization, stated.provider, stated.values)

    async def _checked(self, uow: UnitOfWork, user: UserId, answer: str | UsedPasskey, client: Client) -> MfaMethod | None:
        if isinstance(answer, str):
            return await self.mfa.check(uow, user, answer, client.actor(user), client)
        await self.passkeys.keep(uow, answer)
        await self.mfa.log_passkey(uow, user, client.actor(user))
        return answer.passkey.method

    async def _welcome(self, arrival: Arrival) -> None:
        """Applies the rules of the organization that owns the domain of the address. Every way to sign in passes through here, so no way
        avoids the rules.
        """
        account, realm = arrival.named.account, arrival.realm
        if realm is None:
            return
        if arrival.proof.provider != PASSWORD_PROVIDER:
            # Proofs by password have checked this already, because their refusal must not show whether the password is right.
            owner = account.is_platform_owner
            await self.realms.require(realm, arrival.proof.word, is_platform_owner=owner, person=account.email)
        if realm.joins:
            # Joining comes before the session, because the session may lead to a service that admits only members.
            await self.joining.join_at_sign_in(account.id, account.email)

    async def _await_second_factor(self, arrival: Arrival, sighting: Sighting, landing: Landing[Kept]) -> Preauthentication:
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            service = arrival.context.service
            confirmed = await arrival.last_look(
                uow, service=service, device=None, flow=landing.flow, organization=_entered(arrival.context, landing)
            )
            verdict = self._judged(arrival, confirmed, sighting, landing, shows_two_factors=True)
            if verdict.owes is RiskAction.REFUSE and not _has_way_back(verdict, confirmed.account):
                _require_let_in(verdict)
            await arrival.proof.use(uow)
            context = PLATFORM if service is None else open_context(confirmed.destination)
            awaiting = Preauthentication(
                PreauthenticationId(self.system.ids.new()),
                arrival.named.account.id,
                sighting.device,
                context.organization,
                created_at=now,
                expires_at=now + PREAUTHENTICATION_LIFETIME,
                service=context.service,
                provider=arrival.proof.provider,
                amr=arrival.proof.amr,
                identity=arrival.proof.identity,
                visit=arrival.proof.visit,
                stated_at=arrival.proof.stated_at,
                refuses_applications=arrival.proof.refuses_applications,
            )
            await uow.mfa.add_preauthentication(awaiting)
            await landing.wait(uow, awaiting)
            await uow.commit()
        return awaiting


class HooksToAsk(Exception):
    """Takes the sign-in out of its unit of work, which wrote nothing, so that no connection is held while hooks are asked."""

    def __init__(self, door: AskingDoor) -> None:
        self.door = door
        super().__init__()


def _door(confirmed: Confirmed, context: Context, way: str, amr: tuple[str, ...], sighting: Sighting) -> AskingDoor:
    """Whoever comes here has given every proof to a page of the service: the use of it becomes their own with this sign-in. So hooks hear
    of a first one, too, or whoever is new would come past them once. A hidden tab has no proof to give, and does not come here.
    """
    door = service_door(confirmed.account.id, context.organization, context.service, told_at_login, way=way, authenticated_by=amr)
    return replace(door, came=sighting.approach.client, consents=True)


class _RefusedAfter(Exception):
    def __init__(self, refused: RefusedByRule, provider: str, named: NamedAccount, place: Context) -> None:
        self.refused = refused
        self.provider = provider
        self.named = named
        self.place = place
        super().__init__()


def _entered(context: Context, landing: Landing[Kept]) -> OrganizationId | None:
    """The organization that the sign-in leads to."""
    return context.organization or landing.leads_to.organization


def _require_let_in(verdict: RiskVerdict) -> None:
    if verdict.owes is not None:
        raise RefusedByRule(verdict)


def _has_way_back(verdict: RiskVerdict, account: Account) -> bool:
    """Whether a rule of the installation refuses one of its platform owners, who then gives every factor and gets a mail."""
    return verdict.is_installations and verdict.owes is RiskAction.REFUSE and account.is_platform_owner


def _doors(verdict: RiskVerdict) -> Doors:
    return Doors(verdict.let_in_by, verdict.kept_out_by)


class SignInEnded(Unauthorized):
    """A sign-in that awaits its second factor cannot be finished: it was finished already, has expired, had too many wrong codes, or its
    first proof no longer holds.
    """

    text = "This sign-in has expired: start again"

    def __init__(self, *, detail: str | None = None) -> None:
        super().__init__(words="sign_in_ended", detail=detail)


def _context_of(awaiting: Preauthentication, confirmed: Confirmed) -> Context:
    if awaiting.service is None:
        return PLATFORM
    if confirmed.destination is None:
        raise SignInEnded(detail="the service has been deleted")
    return open_context(confirmed.destination)
