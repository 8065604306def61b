"""Admission: from a proof to a session. The device, the second factor, the last look and the log are the same wherever a sign-in ends: in
the tokens of a client, or in the cookie of a browser.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final, Generic, Protocol, TypeVar

from core.domain.errors import Unauthorized
from core.domain.identifiers import DeviceId, PreauthenticationId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.devices import Client, Remembered
from core.domain.identity.mfa import PREAUTHENTICATION_LIFETIME, MfaMethod, Preauthentication
from core.domain.identity.precedence import FamiliarAddresses
from core.domain.identity.proofs import Proved
from core.domain.identity.risk import Sighting
from core.domain.identity.sessions import NO_SUBSCRIPTION, PLATFORM, Context, SubscriptionState
from core.domain.identity.sign_in import PASSWORD_PROVIDER, Alone, Confirmed, NotConfirmed, is_unusual, methods, open_context
from core.frozen import Frozen
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents, Outcome, audience, warning
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.passkey_proofs import PasskeyProofs, UsedPasskey
from core.usecases.identity.proofs import WRONG_PASSWORD, Arrival, Demand
from core.usecases.identity.realms import HomeRealms
from ports.clock import Clock
from ports.identity.realms import Joining
from ports.ids import Ids
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Arrived(Frozen, kw_only=True):
    """A person who may come in."""

    account: Account
    device: DeviceId
    authenticated_by: tuple[str, ...]
    context: Context
    subscription: SubscriptionState
    proved: Proved
    provider: str
    """The way in which they did, as the log of sign-ins calls it."""
    upstream: str = ""
    """The provider that vouched for them, if one did: its word, or the id of an organization's own."""


Kept = TypeVar("Kept")
"""What the person keeps of their session: the credential by which they come back."""
_Kept_co = TypeVar("_Kept_co", covariant=True)


class Landing(Protocol[_Kept_co]):
    """What a sign-in ends in. All that takes a unit of work runs within the admission's."""

    async def open(self, uow: UnitOfWork, arrived: Arrived) -> _Kept_co: ...

    def opens_at_once(self, user: UserId) -> bool:
        """Whether `demand` will do in place of `open`."""

    async def demand(self, uow: UnitOfWork, arrived: Arrived) -> Callable[[Confirmed], _Kept_co]:
        """`open` without a round trip of its own: if what it demands is not so, the admission raises `Overtaken`. What is returned is
        called after the commit.
        """

    async def wait(self, uow: UnitOfWork, awaiting: Preauthentication) -> None:
        """They owe a second factor first."""


class Admitted(Frozen, Generic[Kept]):
    kept: Kept
    remembered: Remembered


class Admission:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        *,
        devices: Devices,
        mfa: Mfa,
        passkeys: PasskeyProofs,
        login_events: LoginEvents,
        realms: HomeRealms,
        joining: Joining,
        familiar: FamiliarAddresses,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._devices = devices
        self._mfa = mfa
        self._passkeys = passkeys
        self._login_events = login_events
        self._realms = realms
        self._joining = joining
        self._familiar = familiar
        self._clock = clock
        self._ids = ids

    async def admit(
        self, arrival: Arrival, sighting: Sighting, landing: Landing[Kept], *, insists: bool = False
    ) -> Admitted[Kept] | Preauthentication:
        """`insists`: a person who has a second factor must give it, even on a trusted device. Raises `Unauthorized` when the proof does not
        hold any more, as `Overtaken` where the landing may be why; `NotFound` or `OrganizationNotActive` when that has become of where they
        want to get in, and `ProviderRequired` when people of their domain sign in at another provider than they did.
        """
        await self._welcome(arrival)
        proof = arrival.proof
        if arrival.named.mfa_enabled and not proof.shows_two_factors and (insists or not sighting.may_skip_second_factor):
            return await self._await_second_factor(arrival, sighting, landing)
        mfa_enabled = arrival.named.mfa_enabled or proof.shows_two_factors
        if (
            proof.demand_valid is not None
            and arrival.context.service is None
            and landing.opens_at_once(arrival.named.account.id)
            and warning(arrival.named.knowledge, sighting, mfa_enabled=mfa_enabled) is None
        ):
            return await self._admit_at_once(arrival, sighting, landing, proof.demand_valid, mfa_enabled=mfa_enabled)
        async with self._unit_of_work() as uow:
            confirmed, context = await self._confirm(uow, arrival, Alone(sighting.device))
            remembered = await self._devices.remember(uow, confirmed.account.id, sighting)
            kept = await landing.open(
                uow,
                Arrived(
                    account=confirmed.account,
                    device=remembered.device,
                    authenticated_by=proof.amr,
                    context=context,
                    subscription=confirmed.subscription,
                    proved=Proved(proof.at, proof.at if proof.shows_two_factors else None),
                    provider=proof.provider,
                    upstream=proof.word.provider,
                ),
            )
            await self.log(
                uow,
                confirmed.account.id,
                provider=proof.provider,
                sighting=sighting,
                remembered=remembered,
                context=context,
                mfa_enabled=mfa_enabled,
            )
            await self._login_events.warn(uow, confirmed.account, arrival.named.knowledge, sighting, mfa_enabled=mfa_enabled)
            await _enter(uow, confirmed.account.id, context, proof.at)
            await uow.commit()
        self._familiar.add(sighting.approach.client.address)
        return Admitted(kept, remembered)

    async def _admit_at_once(
        self, arrival: Arrival, sighting: Sighting, landing: Landing[Kept], demand_valid: Demand, *, mfa_enabled: bool
    ) -> Admitted[Kept]:
        """In one round trip, where nothing that is written depends on what the last look finds."""
        account, proof = arrival.named.account, arrival.proof
        try:
            async with self._unit_of_work() as uow:
                look = await demand_valid(uow, Alone(sighting.device))
                remembered = await self._devices.remember(uow, account.id, sighting)
                arrived = Arrived(
                    account=account,
                    device=remembered.device,
                    authenticated_by=proof.amr,
                    context=PLATFORM,
                    subscription=NO_SUBSCRIPTION,
                    proved=Proved(proof.at, proof.at if proof.shows_two_factors else None),
                    provider=proof.provider,
                    upstream=proof.word.provider,
                )
                kept = await landing.demand(uow, arrived)
                await self.log(
                    uow,
                    account.id,
                    provider=proof.provider,
                    sighting=sighting,
                    remembered=remembered,
                    context=PLATFORM,
                    mfa_enabled=mfa_enabled,
                )
                await uow.commit()
                confirmed = await look()
        except NotConfirmed:
            raise Overtaken from None
        self._familiar.add(sighting.approach.client.address)
        return Admitted(kept(confirmed), remembered)

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
        """Once, where the first proof was for. `answer` is a code, or a passkey of this person. Raises `SignInEnded`,
        `OrganizationNotActive`, `Unauthorized` for a wrong code, of which the fifth ends the sign-in, and `RateLimited` after too many.
        """
        approach = await self._devices.observe(client)
        await self._mfa.prepare()
        async with self._unit_of_work() as uow:
            # Before the pre-authentication, as whoever ends both takes them.
            await uow.accounts.hold_shared(user)
            awaiting = await uow.mfa.find_preauthentication(preauthentication)
            if awaiting is None or awaiting.user != user:
                raise SignInEnded
            confirmed = await uow.sign_ins.confirm_since(user, awaiting.created_at, awaiting.service)
            if confirmed is None or not awaiting.counts_for(confirmed.account):
                raise SignInEnded
            context = _context_of(awaiting, confirmed)
            method = await self._checked(uow, user, answer, client)
            knowledge = await uow.devices.knowledge(user, approach)
            sighting = self._devices.judge(approach, knowledge)
            if method is None:
                await uow.mfa.fail_preauthentication(preauthentication)
                told = audience(context, has_been_there=confirmed.has_been_there)
                await self._login_events.log_wrong_code(uow, user, awaiting.provider, sighting, told)
                raise Unauthorized("The code is not valid", words="wrong_code")
            now = self._clock.now()
            if not await uow.mfa.consume_preauthentication(preauthentication, now):
                raise SignInEnded
            if awaiting.upstream:
                await uow.identities.own_membership(awaiting.upstream, confirmed.account, now)
            remembered = await self._devices.remember(uow, user, sighting, trust=trust_device)
            kept = await landing.open(
                uow,
                Arrived(
                    account=confirmed.account,
                    device=remembered.device,
                    authenticated_by=methods(awaiting.amr, method),
                    context=context,
                    subscription=confirmed.subscription,
                    proved=Proved(awaiting.created_at, now),
                    provider=awaiting.provider,
                    upstream=awaiting.upstream,
                ),
            )
            await self.log(
                uow,
                confirmed.account.id,
                provider=awaiting.provider,
                sighting=sighting,
                remembered=remembered,
                context=context,
                mfa_enabled=True,
            )
            await self._login_events.warn(uow, confirmed.account, knowledge, sighting, mfa_enabled=True)
            await _enter(uow, user, context, now)
            await uow.commit()
        self._familiar.add(sighting.approach.client.address)
        return Admitted(kept, remembered)

    async def _checked(self, uow: UnitOfWork, user: UserId, answer: str | UsedPasskey, client: Client) -> MfaMethod | None:
        if isinstance(answer, str):
            return await self._mfa.check(uow, user, answer, client.actor(user), client)
        await self._passkeys.keep(uow, answer)
        await self._mfa.log_passkey(uow, user, client.actor(user))
        return answer.passkey.method

    async def _welcome(self, arrival: Arrival) -> None:
        """What an organization says about the people of its domain. Every way to sign in comes by here, so none goes around it."""
        account, realm = arrival.named.account, arrival.realm
        if realm is None:
            return
        if arrival.proof.provider != PASSWORD_PROVIDER:
            # Passwords have asked already: what they answer must not show whether one is right.
            owner = account.is_platform_owner
            await self._realms.require(realm, arrival.proof.word, is_platform_owner=owner, person=account.email)
        if realm.joins:
            # Before the session, which may lead to a service that admits members alone.
            await self._joining.join_at_sign_in(account.id, account.email)

    async def log(
        self,
        uow: UnitOfWork,
        user: UserId,
        *,
        provider: str,
        sighting: Sighting,
        remembered: Remembered,
        context: Context,
        mfa_enabled: bool,
    ) -> None:
        outcome = Outcome(
            user=user,
            provider=provider,
            failure=None,
            approach=sighting.approach,
            sighting=sighting,
            remembered=remembered,
            flagged=is_unusual(sighting, mfa_enabled=mfa_enabled),
            context=context,
        )
        await self._login_events.log(uow, outcome)

    async def _await_second_factor(self, arrival: Arrival, sighting: Sighting, landing: Landing[Kept]) -> Preauthentication:
        now = self._clock.now()
        async with self._unit_of_work() as uow:
            _, context = await self._confirm(uow, arrival, None)
            awaiting = Preauthentication(
                PreauthenticationId(self._ids.new()),
                arrival.named.account.id,
                sighting.device,
                context.organization,
                created_at=now,
                expires_at=now + PREAUTHENTICATION_LIFETIME,
                service=context.service,
                provider=arrival.proof.provider,
                amr=arrival.proof.amr,
                identity=arrival.proof.identity,
            )
            await uow.mfa.add_preauthentication(awaiting)
            await landing.wait(uow, awaiting)
            await uow.commit()
        return awaiting

    @staticmethod
    async def _confirm(uow: UnitOfWork, arrival: Arrival, alone: Alone | None) -> tuple[Confirmed, Context]:
        """The proof may hold no more, or have become too little, or the service may have gone."""
        service = arrival.context.service
        confirmed = await arrival.proof.still_valid(uow, alone, service)
        if confirmed is None:
            raise Unauthorized(WRONG_PASSWORD, words="wrong_password", detail=CHANGED)
        return confirmed, PLATFORM if service is None else open_context(confirmed.destination)


CHANGED: Final = "the account changed while the proof was checked"


class Overtaken(Unauthorized):
    """Something was demanded that is not so any more: of the account, of the proof, or of what the sign-in ends in."""

    def __init__(self) -> None:
        super().__init__(WRONG_PASSWORD, words="wrong_password", detail=CHANGED)


class SignInEnded(Unauthorized):
    """What began with a first proof cannot be finished: it was finished already, has expired, had too many wrong codes, or the first
    proof is worth nothing any more.
    """

    text = "This sign-in has ended: start again"

    def __init__(self, *, detail: str | None = None) -> None:
        super().__init__(words="sign_in_ended", detail=detail)


async def _enter(uow: UnitOfWork, user: UserId, context: Context, at: datetime) -> None:
    """Last of all, since newcomers to one service wait here for each other."""
    if context.service is not None:
        await uow.sign_ins.enter(user, context.service, at)


def _context_of(awaiting: Preauthentication, confirmed: Confirmed) -> Context:
    if awaiting.service is None:
        return PLATFORM
    if confirmed.destination is None:
        raise SignInEnded(detail="the service has been deleted")
    return open_context(confirmed.destination)
