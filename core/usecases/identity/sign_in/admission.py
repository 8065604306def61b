"""Admission: from a proof to a session. The last look, the device, the second factor and the log are the same wherever a sign-in ends."""

from typing import Generic, Protocol, TypeVar

from core.domain.errors import Unauthorized
from core.domain.identifiers import DeviceId, FlowId, PreauthenticationId, UserId
from core.domain.identity.devices import Client, Remembered
from core.domain.identity.mfa import PREAUTHENTICATION_LIFETIME, MfaMethod, Preauthentication
from core.domain.identity.priority import FamiliarAddresses
from core.domain.identity.proofs import Proved
from core.domain.identity.risk import Knowledge, Sighting
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import PASSWORD_PROVIDER, Confirmed, LastLook, is_unusual, methods, open_context
from core.domain.identity.upstream.directory_visits import DirectoryVisit
from core.frozen import Frozen
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents, LoginOutcome, audience
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.sign_in.proofs.passkey import PasskeyProofs, UsedPasskey
from core.usecases.identity.sign_in.proofs.proof import Arrival, Overtaken, last_look
from ports.identity.realms import Joining, ProvidedFields
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

    async def open(self, uow: UnitOfWork, arrived: Arrived, device: DeviceId) -> _Kept_co: ...

    async def wait(self, uow: UnitOfWork, awaiting: Preauthentication) -> None:
        """Called when the person has to give a second factor first."""


class Admitted(Frozen, Generic[Kept]):
    kept: Kept
    remembered: Remembered


class Admission(Frozen):
    unit_of_work: UnitOfWorkFactory
    devices: Devices
    mfa: Mfa
    passkeys: PasskeyProofs
    login_events: LoginEvents
    realms: HomeRealms
    joining: Joining
    provided: ProvidedFields
    familiar: FamiliarAddresses
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
        proof, service = arrival.proof, arrival.context.service
        if arrival.named.mfa_enabled and not proof.shows_two_factors and (insists or not sighting.may_skip_second_factor):
            awaiting = await self._await_second_factor(arrival, sighting, landing)
            await self._keep_stated(arrival)
            return awaiting
        async with self.unit_of_work() as uow:
            device = None if insists else sighting.device
            confirmed = await arrival.last_look(uow, service=service, device=device, flow=landing.flow)
            if not (confirmed.one_factor_is_enough or proof.shows_two_factors):
                raise Overtaken
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
        async with self.unit_of_work() as uow:
            # The account is held before the pre-authentication: code that ends both takes them in this order.
            await uow.accounts.hold_shared(user)
            awaiting = await uow.mfa.find_preauthentication(preauthentication)
            if awaiting is None or awaiting.user != user:
                raise SignInEnded
            look = LastLook(user=user, since=awaiting.created_at, service=awaiting.service, flow=landing.flow)
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
        )
        await self.login_events.log(uow, outcome)
        await self.login_events.warn_owner(uow, account, arrived.knowledge, sighting, mfa_enabled=arrived.has_second_factor)
        if context.service is not None:
            now = self.system.clock.now()
            if arrived.confirmed.is_made_elsewhere:
                await uow.sign_ins.let_hold(account.id, context.service, arrived.authenticated_by, now)
            # This write comes last, because simultaneous newcomers to one service wait here for each other.
            await uow.sign_ins.enter(account.id, context.service, now)
        return Admitted(kept, remembered)

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
            confirmed = await arrival.last_look(uow, service=service, device=None, flow=landing.flow)
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


class SignInEnded(Unauthorized):
    """A sign-in that awaits its second factor cannot be finished: it was finished already, has expired, had too many wrong codes, or its
    first proof no longer holds.
    """

    text = "This sign-in has ended: start again"

    def __init__(self, *, detail: str | None = None) -> None:
        super().__init__(words="sign_in_ended", detail=detail)


def _context_of(awaiting: Preauthentication, confirmed: Confirmed) -> Context:
    if awaiting.service is None:
        return PLATFORM
    if confirmed.destination is None:
        raise SignInEnded(detail="the service has been deleted")
    return open_context(confirmed.destination)
