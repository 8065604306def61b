"""Authenticates users by an identity provider: its assertion authenticates the account that it is about."""

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest, Unavailable
from core.domain.identifiers import FlowId, IdentityId, UpstreamProviderId, UserId
from core.domain.identity.accounts import opened_by_proof, signed_up, unverified_account
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.proofs import ProofMethod, stated
from core.domain.identity.realms import Realm, Word
from core.domain.identity.risk import NOTHING_KNOWN, Approach
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import LastLook, NamedAccount
from core.domain.identity.upstream.claims import Asserted, Voucher
from core.domain.identity.upstream.directory_visits import DirectoryVisit, ending_visit, stated_factor
from core.domain.identity.upstream.further_sign_ins import AddressNeeded
from core.domain.identity.upstream.identities import (
    ADDRESS_TAKEN,
    DEACTIVATED,
    NOT_FOR_ACCOUNT,
    NOT_REGISTERED,
    OTHER_CONNECTED,
    UNVERIFIED,
    Encounter,
    Linking,
    gives_accounts,
    identity_linked,
    is_elsewhere,
    linking,
)
from core.domain.identity.upstream.providers import Upstream
from core.domain.identity.upstream.sign_in import (
    FEDERATED,
    ServicePlace,
    TakenState,
    UpstreamRefused,
    WayThrough,
)
from core.domain.mail import Email, mail_domain
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen, replace
from core.usecases.identity.account_endings import hand_over
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.profiles import Profiles
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.registering import Registrations
from core.usecases.identity.sign_in.proofs.proof import Arrival, Proof, StatedFields
from core.usecases.identity.upstream.further_sign_ins import NewcomerWords
from core.usecases.identity.upstream.identities import LOOKS, LinkedIdentities
from core.usecases.identity.upstream.journeys import Vouched
from core.usecases.identity.upstream.provider_tokens import IdentityGrants
from ports.identity.accounts import EmailSyntax
from ports.identity.upstream import UpstreamLookup
from ports.metrics import Metrics
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_METHODS: Final = (FEDERATED,)


def _stated(vouched: Vouched) -> StatedFields | None:
    organization, stated = vouched.upstream.organization, vouched.asserted.fields
    return None if organization is None or not stated else StatedFields(organization, vouched.upstream.key, stated)


def _voucher(vouched: Vouched) -> Voucher | None:
    """None for a provider of the installation: the word of one of the three proves an address, and a code proves that of a newcomer."""
    organization = vouched.upstream.organization
    return None if organization is None else Voucher(organization, UUID(vouched.upstream.key))


def _ending(vouched: Vouched) -> DirectoryVisit | None:
    """Only an organization's own provider says when a visit ends."""
    organization, ends_at = vouched.upstream.organization, vouched.asserted.session_ends_at
    return None if organization is None else ending_visit(UpstreamProviderId(UUID(vouched.upstream.key)), ends_at)


class _Known(Frozen):
    """The account that the word is about."""

    identity: IdentityId
    named: NamedAccount


class UpstreamProofs(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: UpstreamLookup
    linked: LinkedIdentities
    profiles: Profiles
    grants: IdentityGrants
    realms: HomeRealms
    devices: Devices
    login_events: LoginEvents
    email_syntax: EmailSyntax
    registrations: Registrations
    newcomers: NewcomerWords
    metrics: Metrics
    system: System

    async def make(self, taken: TakenState, vouched: Vouched, client: Client) -> Arrival:
        """Makes the proof. If the provider's word is enough, also connects the identity or creates the account. Raises `UpstreamRefused`,
        `ProviderOff`, `AddressNeeded` for a newcomer, and `ProviderRequired` when people with this address sign in at another provider.
        """
        upstream, asserted, way = vouched.upstream, vouched.asserted, taken.way
        approach = await self.devices.observe(client)
        # An address that mail would not accept matters only if the address decides: a connected person is known by their identity.
        email = Email(asserted.email) if asserted.email else None
        application = PLATFORM if taken.flow is None else taken.flow.application
        for _ in range(LOOKS):
            met = await self.lookup.meet(
                upstream.key, asserted, email, approach, organization=upstream.organization, application=application
            )
            known = await self._known(met, vouched, way, approach, application)
            if known is not None:
                return Arrival(known.named, self._proof(known, met, vouched, way), approach, PLATFORM, await self._realm(known, met, email))
            if taken.flow is not None and self._is_new(met, upstream):
                await self.newcomers.keep(taken.flow.id, vouched)
                self.metrics.upstream_sign_in(upstream.label, "newcomer")
                raise AddressNeeded
        raise Unavailable(retry_after=1, detail="an identity stayed contended")

    async def foreseen(self, vouched: Vouched, client: Client) -> tuple[str, str]:
        """Returns what would come of a further provider's word, in one word, and the address of the account that it would open. Writes
        nothing.
        """
        asserted, approach = vouched.asserted, await self.devices.observe(client)
        email = self._email(asserted)
        met = await self.lookup.meet(vouched.upstream.key, asserted, email, approach)
        if met.connected is not None:
            account = met.connected.account
            return ("deactivated" if account.deactivated_at is not None else "signs_in"), account.email.address
        return ("taken" if met.named is not None else "asked"), ""

    async def make_of_newcomer(self, flow: Flow, vouched: Vouched, email: Email, client: Client) -> Arrival:
        """Makes the account of a newcomer who has shown that the address is theirs, connects the identity, and makes the proof. Whoever was
        connected meanwhile signs in. Raises `UpstreamRefused` when an account has the address: whoever signs in to it can connect the
        provider there. Raises `ProviderOff`, and `ProviderRequired` when people with this address sign in at another provider.
        """
        upstream = vouched.upstream
        place = ServicePlace(organization=flow.wanted.organization, service=flow.service)
        approach, way = await self.devices.observe(client), await self.lookup.way(upstream.key, place)
        for _ in range(LOOKS):
            met = await self.lookup.meet(upstream.key, vouched.asserted, email, approach, application=flow.application)
            met.require_provider()
            if met.connected is not None or met.named is not None:
                known = await self._known(met, vouched, way, approach, flow.application)
            else:
                known = await self._made(met, vouched, email, way, flow=flow, client=client)
            if known is not None:
                return Arrival(known.named, self._proof(known, met, vouched, way), approach, PLATFORM, await self._realm(known, met, email))
            if met.named is not None:
                self.metrics.upstream_sign_in(upstream.label, "refused")
                raise UpstreamRefused(ADDRESS_TAKEN)
        raise Unavailable(retry_after=1, detail="an identity stayed contended")

    async def _made(self, met: Encounter, vouched: Vouched, email: Email, way: WayThrough, *, flow: Flow, client: Client) -> _Known | None:
        if met.realm is not None:
            await self.realms.require(met.realm, self._word(vouched, way, met), is_platform_owner=False)
        if await self.registrations.refuses_arrival(email, way.organization, None):
            self.metrics.upstream_sign_in(vouched.upstream.label, "refused")
            raise UpstreamRefused(NOT_REGISTERED)
        return await self._created(vouched, email, way, client, newcomer=flow.id)

    @staticmethod
    def _is_new(met: Encounter, upstream: Upstream) -> bool:
        return met.connected is None and not upstream.proves

    def _proof(self, known: _Known, met: Encounter, vouched: Vouched, way: WayThrough) -> Proof:
        asserted, now = vouched.asserted, self.system.clock.now()
        self.metrics.upstream_sign_in(vouched.upstream.label, "succeeded")
        return Proof(
            method=ProofMethod.UPSTREAM,
            provider=vouched.upstream.label,
            amr=_METHODS,
            at=now,
            use=self._use(known.identity, vouched, way),
            since=now,
            word=self._word(vouched, way, met),
            stated=_stated(vouched),
            identity=known.identity,
            visit=asserted.visit or _ending(vouched),
            stated_at=stated(asserted.authenticated_at, now),
            refuses_applications=asserted.refuses_applications,
            factor=stated_factor(vouched.upstream, asserted.methods),
        )

    async def needs_consent(self, taken: TakenState, vouched: Vouched, arrival: Arrival) -> bool:
        """Returns whether the person has to return to the provider for consent before the sign-in: the provider gives refresh tokens only
        after consent, and has not asked for consent this time.
        """
        identity = arrival.proof.identity
        if identity is None or taken.asked_consent or not vouched.upstream.needs_consent_to_renew:
            return False
        return not await self.grants.lasts(identity, vouched.upstream, taken.way, vouched.tokens)

    async def _known(self, met: Encounter, vouched: Vouched, way: WayThrough, approach: Approach, application: Context) -> _Known | None:
        """Returns None when a simultaneous sign-in was quicker and the caller has to look again."""
        upstream, asserted, client = vouched.upstream, vouched.asserted, approach.client
        met.require_provider()
        email = None if met.connected is not None else self._email(asserted)
        stated = asserted if email is not None else Asserted(asserted.issuer, asserted.subject)
        decided = linking(stated, met, upstream.key, of_organization=upstream.organization is not None, proves=upstream.proves)
        if decided is Linking.ASK:
            return None
        named = met.connected or met.named
        if met.realm is not None and decided in _WRITES:
            # The check comes before anything is written. For an identity that is connected already, the admission checks, as for all
            # sign-ins.
            owner = named is not None and named.account.is_platform_owner
            await self.realms.require(met.realm, self._word(vouched, way, met), is_platform_owner=owner)
        if decided is Linking.CREATE and email is not None:
            vouching = gives_accounts(upstream.organization, upstream.key, met.realm)
            if await self.registrations.refuses_arrival(email, way.organization, vouching):
                decided = Linking.NOT_REGISTERED
        match decided:
            case Linking.SIGN_IN if met.identity is not None and named is not None:
                return _Known(met.identity, await self._vouched(vouched, named, met))
            case Linking.CREATE if email is not None:
                return await self._created(vouched, email, way, client)
            case Linking.CONNECT if named is not None:
                return await self._connected(vouched, named, way, client)
            case Linking.REPLACE if named is not None:
                return await self._connected(vouched, named, way, client, replaces=True)
            case Linking.RECLAIM if named is not None and email is not None:
                return await self._reclaimed(vouched, named, email, way, client)
        self.metrics.upstream_sign_in(upstream.label, "refused")
        reason = _REASONS.get(decided, UNVERIFIED)
        failure = LoginFailure.DEACTIVATED if decided is Linking.DEACTIVATED else LoginFailure.NOT_VOUCHED
        # Only a connected account gets an entry: a person without an account must not be able to write into another person's log.
        await self.login_events.log_failure(failure, upstream.label, met.connected, approach, application)
        raise UpstreamRefused(reason)

    async def _realm(self, known: _Known, met: Encounter, email: Email | None) -> Realm | None:
        """Returns the realm of the account's own address, which may differ from the address that the provider tells."""
        account, found = known.named.account, met.connected or met.named
        is_stated = email is not None and mail_domain(email) == mail_domain(account.email)
        if is_stated and found is not None and found.account == account:
            return met.realm
        return await self.realms.of(account)

    async def _created(
        self, vouched: Vouched, email: Email, way: WayThrough, client: Client, *, newcomer: FlowId | None = None
    ) -> _Known | None:
        """`newcomer` is the flow in which somebody waits whose address a mailed code has shown."""
        now = self.system.clock.now()
        voucher = _voucher(vouched)
        fresh = unverified_account(UserId(self.system.ids.new()), email, now, client.language, voucher)
        account = replace(fresh, email_verified_at=now if voucher is None else None)
        identity = self.linked.of(account.id, vouched)
        actor = client.actor(account.id)
        async with self.unit_of_work() as uow:
            if not await uow.accounts.add(account, None, way.service, origin_organization=vouched.upstream.organization):
                return None
            if not await uow.identities.add(identity, account, origin=way.service):
                return None
            through = PLATFORM if way.service is None else Context(way.organization, "", way.service, "")
            await uow.record(signed_up(account.id, actor, vouched.upstream.label, through))
            await uow.record(identity_linked(identity, actor, service=way.service, how="created"))
            await self._fill(uow, account.id, vouched, actor)
            if newcomer is not None:
                await uow.newcomers.remove(newcomer)
            await uow.commit()
        return _Known(identity.id, NamedAccount(account, None, False, NOTHING_KNOWN))

    async def _vouched(self, vouched: Vouched, named: NamedAccount, met: Encounter) -> NamedAccount:
        """A connected identity whose provider tells the account's own address, as verified, vouches for the address. So does the first
        sign-in of somebody who came with a moved organization, or by an import.
        """
        voucher, account, stated = _voucher(vouched), named.account, self._email(vouched.asserted)
        if voucher is None or not account.nobody_knows_address or not vouched.asserted.email_is_verified:
            return named
        if stated is None or stated.key != account.email.key or not met.account_domain_is_theirs:
            return named
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(account.id)
            await uow.identities.vouch(vouched.upstream.key, account)
            await uow.commit()
        return replace(named, account=replace(account, address_vouched_by=voucher))

    async def _connected(
        self, vouched: Vouched, named: NamedAccount, way: WayThrough, client: Client, *, replaces: bool = False
    ) -> _Known | None:
        """Connects the identity to an account whose address is proved, or for which this provider has vouched before. The provider has
        verified the same address. `replaces`:
        the new identity takes the place of an identity that is no longer accepted.
        """
        user, identity = named.account.id, self.linked.of(named.account.id, vouched)
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            confirmed = await uow.sign_ins.confirm(LastLook(user=user, since=self.system.clock.now()))
            if confirmed is None or confirmed.account != named.account:
                return None
            if replaces:
                held = await uow.identities.hold(user, vouched.upstream.key)
                if held is None or not is_elsewhere(held.identity.email, named.account):
                    return None
                other = held.identity
                await uow.identities.remove(other.id)
                await self.linked.tell_unlinked(
                    uow, other, named.account.email, vouched.upstream.name, client.actor(user), language=named.account.language
                )
            if not await uow.identities.add(identity, named.account, origin=way.service):
                return None
            how = "replaced" if replaces else "address"
            await self.linked.tell_linked(uow, identity, named.account, vouched.upstream, client.actor(user), service=way.service, how=how)
            await self._fill(uow, user, vouched, client.actor(user))
            await uow.commit()
        return _Known(identity.id, named)

    async def _reclaimed(self, vouched: Vouched, named: NamedAccount, email: Email, way: WayThrough, client: Client) -> _Known | None:
        """Gives the account to the provider's person, when the registrant of the address has never proved it. Everything that the
        registrant left there ends.
        """
        user, identity = named.account.id, self.linked.of(named.account.id, vouched)
        actor = client.actor(user)
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            now = self.system.clock.now()
            voucher = _voucher(vouched)
            if not await uow.identities.reclaim(user, email, now, by=voucher):
                return None
            await hand_over(uow, user, now)
            if not await uow.identities.add(identity, named.account, origin=way.service):
                return None
            if named.account.opens_by_first_proof:
                await uow.record(opened_by_proof(user, actor))
            await uow.record(Event("user.account.reclaimed", actor, Target("user", str(user)), details={"provider": vouched.upstream.key}))
            await self.linked.tell_linked(uow, identity, named.account, vouched.upstream, actor, service=way.service, how="reclaimed")
            await self._fill(uow, user, vouched, actor)
            await uow.commit()
        verified_at = now if voucher is None else None
        account = replace(
            named.account, email_verified_at=verified_at, address_vouched_by=voucher, deactivated_at=None, deactivated_by=None
        )
        # The browsers and habits that are known are those of whoever was here before.
        return _Known(identity.id, NamedAccount(account, None, False, NOTHING_KNOWN))

    async def _fill(self, uow: UnitOfWork, user: UserId, vouched: Vouched, actor: Actor) -> None:
        """The first sign-in by a provider of the installation fills what the person has left empty. An organization's own provider writes
        nothing of the person's own.
        """
        if vouched.upstream.organization is None:
            await self.profiles.fill(uow, user, vouched.asserted.stated, actor, vouched.upstream.label)

    def _use(self, identity: IdentityId, vouched: Vouched, way: WayThrough) -> Callable[[UnitOfWork], Awaitable[None]]:
        async def use(uow: UnitOfWork) -> None:
            await uow.identities.keep_email(identity, vouched.asserted.email)
            await self.grants.keep(uow, identity, vouched.upstream, way, vouched.tokens)

        return use

    def _word(self, vouched: Vouched, way: WayThrough, met: Encounter) -> Word:
        """Builds the word that the realm judges. An address that mail would not accept may have another domain than the domain of the
        look-up.
        """
        asserted, vouches_in = vouched.asserted, None
        if met.realm is not None and asserted.email_is_verified and self._email(asserted) is not None:
            vouches_in = met.realm.organization
        return Word(provider=vouched.upstream.key, vouches_in=vouches_in, client_of=way.realm or way.organization)

    def _email(self, asserted: Asserted) -> Email | None:
        """Returns None when the provider told no address, or an address that mail could not use."""
        try:
            return self.email_syntax.parse(asserted.email) if asserted.email else None
        except BadRequest:
            return None


# The outcomes that write something before a session exists.
_WRITES: Final = frozenset({Linking.CREATE, Linking.CONNECT, Linking.REPLACE, Linking.RECLAIM})
_REASONS: Final = {
    Linking.UNVERIFIED: UNVERIFIED,
    Linking.OTHER_CONNECTED: OTHER_CONNECTED,
    Linking.NOT_FOR_ACCOUNT: NOT_FOR_ACCOUNT,
    Linking.DEACTIVATED: DEACTIVATED,
    Linking.NOT_REGISTERED: NOT_REGISTERED,
}
