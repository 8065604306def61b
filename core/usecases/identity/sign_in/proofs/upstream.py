"""Signing in through an upstream provider: the person leaves, comes back with a code, and the provider's word becomes a proof."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from core.domain.email import Email, mail_domain
from core.domain.errors import BadRequest, NotFound, Unavailable
from core.domain.identifiers import FlowId, IdentityId, ServiceId, SessionId, UserId
from core.domain.identity.accounts import Account, opened_by_proof, signed_up, unverified_account
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowOver, Prompt
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.proofs import ProofMethod
from core.domain.identity.realms import Realm, Word
from core.domain.identity.risk import NOTHING_KNOWN, Approach
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import Confirmed, LastLook, NamedAccount
from core.domain.identity.upstream.claims import Asserted, NotVouched, may_be_issued_by
from core.domain.identity.upstream.identities import (
    DEACTIVATED,
    NOT_FOR_ACCOUNT,
    OTHER_CONNECTED,
    UNVERIFIED,
    Encounter,
    Identity,
    Linking,
    identity_linked,
    identity_unlinked,
    is_elsewhere,
    linking,
)
from core.domain.identity.upstream.link_requests import Asker
from core.domain.identity.upstream.providers import Offer, Upstream, provider_key
from core.domain.identity.upstream.sign_in import (
    FEDERATED,
    Asked,
    NewState,
    OAuthError,
    Place,
    ProviderTokens,
    TakenState,
    UpstreamRefused,
    WayThrough,
    derived,
    is_code,
)
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Token
from core.frozen import Frozen, replace
from core.usecases.identity.account_access import hand_over
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.sign_in.proofs.proof import Arrival, Proof
from core.usecases.identity.upstream.identity_grants import IdentityGrants
from core.usecases.identity.upstream.outages import ProviderOutages
from core.usecases.identity.upstream.providers import UpstreamProviders
from ports.clock import Clock
from ports.identity.accounts import EmailSyntax
from ports.identity.upstream.protocols import UpstreamProtocols
from ports.identity.upstream.sign_in import UpstreamLookup
from ports.ids import Ids
from ports.mail_templates import MailTemplates
from ports.metrics import Metrics
from ports.secrets import Secrets
from ports.server_secrets import ServerSecrets
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# Of the key that nonces and verifiers are derived with.
STATES: Final = "upstream_states"
# Whoever meets another who creates the same account, or connects the same identity, looks again and finds it done.
LOOKS: Final = 3
_METHODS: Final = (FEDERATED,)


class Vouched(Frozen):
    """A provider's word, and what came with it."""

    upstream: Upstream
    asserted: Asserted
    tokens: ProviderTokens


class _Known(Frozen):
    """The account that the word is about."""

    identity: IdentityId
    named: NamedAccount


class UpstreamSignIn:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        lookup: UpstreamLookup,
        protocols: UpstreamProtocols,
        *,
        providers: UpstreamProviders,
        grants: IdentityGrants,
        outages: ProviderOutages,
        realms: HomeRealms,
        devices: Devices,
        login_events: LoginEvents,
        email_syntax: EmailSyntax,
        templates: MailTemplates,
        server_secrets: ServerSecrets,
        metrics: Metrics,
        clock: Clock,
        ids: Ids,
        secrets: Secrets,
        base_url: str,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._protocols = protocols
        self._providers = providers
        self._grants = grants
        self._outages = outages
        self._realms = realms
        self._devices = devices
        self._login_events = login_events
        self._email_syntax = email_syntax
        self._templates = templates
        self._server_secrets = server_secrets
        self._metrics = metrics
        self._clock = clock
        self._ids = ids
        self._secrets = secrets
        self._base_url = base_url

    def callback(self, provider: str) -> str:
        """Where the provider sends people back to. Each has its own, so that nobody's answer is taken for another's."""
        return f"{self._base_url}/auth/{provider}/callback"

    def offered_in(self, flow: Flow | None) -> Sequence[Offer]:
        """What the pages of a flow lead to."""
        return self._providers.offered_in(flow)

    async def offered_at(self, organization: str) -> Sequence[Offer]:
        """What leads to the services of the organization with this slug: what the installation has, and what it has of its own."""
        return self._providers.offered(await self._lookup.own(organization))

    async def offered_to(self, caller: Caller) -> Sequence[Offer]:
        """What somebody can connect: what the installation has, and what the organization has that they look after."""
        return await self.offered_at(caller.organization or caller.chosen_organization)

    def name(self, provider: str, otherwise: str = "") -> str:
        """As people know it. `otherwise` is the name of an organization's own."""
        return self._providers.name(provider, otherwise)

    async def leave(
        self,
        provider: str,
        browser: Token,
        flow: Flow,
        *,
        begins: bool = False,
        login_hint: str = "",
        choose: bool = False,
        consent: bool = False,
        realm: str = "",
    ) -> str:
        """Where the person goes to sign in at the provider. `begins`: nobody has kept the flow yet. `consent`: they are asked again what
        the service may do there. `realm` is the slug of the organization that leads people of its domain there. Raises `UnknownProvider`,
        `ProviderOff`, `OAuthError`, and `NotFound` when the flow's organization is gone.
        """
        wanted = flow.wanted
        leaving = _Leaving(
            flow=flow.id,
            begun=flow if begins else None,
            login_hint=login_hint or flow.email,
            choose=choose or wanted.prompt is Prompt.SELECT_ACCOUNT,
            consent=consent,
            fresh=wanted.wants_fresh_sign_in,
        )
        return await self._gone(provider_key(provider), browser, _place(flow, realm), leaving)

    async def name_in(self, flow: Flow, provider: str, *, realm: str = "") -> str:
        """What people know the provider by, before they leave for it. Raises what `leave` does, but calls nobody."""
        key, place = provider_key(provider), _place(flow, realm)
        return self._found(key, place, await self._lookup.way(key, place)).name

    async def name_at(self, provider: str, place: Place) -> str:
        """The same where nobody has begun a flow. Raises `UnknownProvider` and `ProviderOff`."""
        key = provider_key(provider)
        return self._providers.found(key, await self._lookup.way(key, place)).name

    async def leave_to_connect(self, provider: str, browser: Token, caller: Caller, asker: Asker | None = None) -> str:
        """The same as `leave` for somebody who is signed in and connects an identity. `asker`: another session of theirs has asked for it,
        and they are led back to where that belongs. Raises the same.
        """
        place = Place(organization=caller.organization or caller.chosen_organization) if asker is None else asker.place
        asked_in = None if asker is None else asker.session
        leaving = _Leaving(user=caller.user, session=caller.session, asked_in=asked_in, choose=True, consent=True)
        return await self._gone(provider_key(provider), browser, place, leaving)

    async def take(self, provider: str, state: Token, browser: Token | None) -> TakenState:
        """What somebody who comes back was on the way to, once. Raises `UnknownProvider`, and `FlowOver` when there is no such state, or it
        has expired, was used, or is another browser's.
        """
        key = provider_key(provider)
        taken = None if browser is None else await self._lookup.take(state.digest(), key, browser.digest())
        if taken is None:
            raise FlowOver
        return taken

    async def vouched(self, taken: TakenState, state: Token, code: Token, issuer: str | None) -> Vouched:
        """The provider's word for what came back. `issuer` is who the answer says it is from. Raises `ProviderOff` when the provider has
        been turned off meanwhile, or has another client, and `OAuthError` when its word shows nobody's identity.
        """
        upstream = self._providers.found(taken.provider, taken.way)
        if upstream.client.client_id != taken.client_id:
            raise OAuthError(detail="the client at the provider was changed meanwhile")
        try:
            if issuer is not None and not may_be_issued_by(upstream.endpoints.issuer, issuer):
                raise NotVouched("the answer is another issuer's")  # noqa: TRY301 - one way out for all of them
            if not is_code(code):
                raise NotVouched("no code")  # noqa: TRY301
            flow = taken.flow
            since = None if flow is None else flow.wanted.signed_in_since(flow.created_at, self._clock.now())
            asked = replace(await self._asked(taken.provider, state), since=since, answer_names_issuer=issuer is not None)
            asserted, tokens = await self._outages.watch_return(upstream, taken.way, self._protocols.redeem(upstream, code, asked))
            if issuer is not None and issuer != asserted.issuer:
                raise NotVouched("the answer is another tenant's")  # noqa: TRY301
        except NotVouched as refusal:
            self._metrics.upstream_sign_in(upstream.label, "not_vouched")
            raise OAuthError(detail=f"{upstream.label}: {refusal}") from None
        except OAuthError:
            self._metrics.upstream_sign_in(upstream.label, "failed")
            raise
        return Vouched(upstream, asserted, tokens)

    async def make(self, taken: TakenState, vouched: Vouched, client: Client) -> Arrival:
        """The proof. On the way, the identity is connected or the account created, where the provider's word is enough for that. Raises
        `UpstreamRefused`, `ProviderOff`, and `ProviderRequired` where people with this address sign in at another provider.
        """
        upstream, asserted, way = vouched.upstream, vouched.asserted, taken.way
        approach = await self._devices.observe(client)
        # Whether mail would take it matters only where it decides: whoever is connected is known by their identity.
        email = Email(asserted.email) if asserted.email else None
        for _ in range(LOOKS):
            met = await self._lookup.meet(upstream.key, asserted, email, approach, organization=upstream.organization)
            known = await self._known(met, vouched, way, approach)
            if known is not None:
                self._metrics.upstream_sign_in(upstream.label, "succeeded")
                now = self._clock.now()
                proof = Proof(
                    method=ProofMethod.UPSTREAM,
                    provider=upstream.label,
                    amr=_METHODS,
                    at=now,
                    use=self._use(known.identity, vouched, way),
                    since=now,
                    word=self._word(vouched, way, met),
                    identity=known.identity,
                )
                return Arrival(known.named, proof, approach, PLATFORM, await self._realm(known, met, email))
        raise Unavailable(retry_after=1, detail="an identity stayed contended")

    async def needs_consent(self, taken: TakenState, vouched: Vouched, arrival: Arrival) -> bool:
        """Whether the person goes there once more before they are signed in: to a provider that gives what renews its tokens only to those
        whom it asks for consent, and has not asked.
        """
        identity = arrival.proof.identity
        if identity is None or taken.asked_consent or not vouched.upstream.needs_consent_to_renew:
            return False
        return not await self._grants.lasts(identity, vouched.upstream, taken.way, vouched.tokens)

    async def _known(self, met: Encounter, vouched: Vouched, way: WayThrough, approach: Approach) -> _Known | None:
        """None: somebody else was quicker, so look again."""
        upstream, asserted, client = vouched.upstream, vouched.asserted, approach.client
        met.require_provider()
        email = None if met.connected is not None else self._email(asserted)
        told = asserted if email is not None else Asserted(asserted.issuer, asserted.subject)
        decided = linking(told, met, upstream.key, of_organization=upstream.organization is not None)
        named = met.connected or met.named
        if met.realm is not None and decided in _WRITES:
            # Before anything is written. Whoever has connected the identity already is asked where all sign-ins are.
            owner = named is not None and named.account.is_platform_owner
            await self._realms.require(met.realm, self._word(vouched, way, met), is_platform_owner=owner)
        match decided:
            case Linking.SIGN_IN if met.identity is not None and named is not None:
                return _Known(met.identity, named)
            case Linking.CREATE if email is not None:
                return await self._created(vouched, email, way, client)
            case Linking.CONNECT if named is not None:
                return await self._connected(vouched, named, way, client)
            case Linking.REPLACE if named is not None:
                return await self._connected(vouched, named, way, client, replaces=True)
            case Linking.RECLAIM if named is not None and email is not None:
                return await self._reclaimed(vouched, named, email, way, client)
        self._metrics.upstream_sign_in(upstream.label, "refused")
        reason = _REASONS.get(decided, UNVERIFIED)
        failure = LoginFailure.DEACTIVATED if decided is Linking.DEACTIVATED else LoginFailure.NOT_VOUCHED
        # Whoever has no account of ours must not be able to write into somebody's log.
        await self._login_events.log_failure(failure, upstream.label, met.connected, approach)
        raise UpstreamRefused(reason)

    async def _realm(self, known: _Known, met: Encounter, email: Email | None) -> Realm | None:
        """Of the domain of the account's own address, which may be another than the provider tells."""
        account, found = known.named.account, met.connected or met.named
        is_told = email is not None and mail_domain(email) == mail_domain(account.email)
        if is_told and found is not None and found.account == account:
            return met.realm
        return await self._realms.of(account)

    async def _created(self, vouched: Vouched, email: Email, way: WayThrough, client: Client) -> _Known | None:
        now = self._clock.now()
        fresh = unverified_account(UserId(self._ids.new()), email, now, client.language)
        account = replace(fresh, email_verified_at=now)
        identity = self._identity(account.id, vouched)
        actor = client.actor(account.id)
        async with self._unit_of_work() as uow:
            if not await uow.accounts.add(account, None, way.service):
                return None
            if not await uow.identities.add(identity, account, origin=way.service):
                return None
            through = PLATFORM if way.service is None else Context(way.organization, "", way.service, "")
            await uow.record(signed_up(account.id, actor, vouched.upstream.label, through))
            await uow.record(identity_linked(identity, actor, service=way.service, how="created"))
            await uow.commit()
        return _Known(identity.id, NamedAccount(account, None, False, NOTHING_KNOWN))

    async def _connected(
        self, vouched: Vouched, named: NamedAccount, way: WayThrough, client: Client, *, replaces: bool = False
    ) -> _Known | None:
        """To an account whose owner has proved the address, as the provider says of this person. `replaces`: in place of an identity there
        that does not do any more.
        """
        user, identity = named.account.id, self._identity(named.account.id, vouched)
        async with self._unit_of_work() as uow:
            await uow.accounts.hold(user)
            confirmed = await uow.sign_ins.confirm(LastLook(user=user, since=self._clock.now()))
            if confirmed is None or confirmed.account != named.account:
                return None
            if replaces:
                held = await uow.identities.hold(user, vouched.upstream.key)
                if held is None or not is_elsewhere(held.identity.email, named.account):
                    return None
                other = held.identity
                await uow.identities.remove(other.id)
                await self._tell_unlinked(uow, other, named.account, vouched.upstream, client.actor(user))
            if not await uow.identities.add(identity, named.account, origin=way.service):
                return None
            how = "replaced" if replaces else "address"
            await self.tell_linked(uow, identity, named.account, vouched.upstream, client.actor(user), service=way.service, how=how)
            await uow.commit()
        return _Known(identity.id, named)

    async def _reclaimed(self, vouched: Vouched, named: NamedAccount, email: Email, way: WayThrough, client: Client) -> _Known | None:
        """From whoever registered the address and never proved it. What they put there, and everything that rests on it, ends."""
        user, identity = named.account.id, self._identity(named.account.id, vouched)
        actor = client.actor(user)
        async with self._unit_of_work() as uow:
            await uow.accounts.hold(user)
            now = self._clock.now()
            if not await uow.identities.reclaim(user, email, now):
                return None
            await hand_over(uow, user, now)
            if not await uow.identities.add(identity, named.account, origin=way.service):
                return None
            if named.account.opens_by_proof:
                await uow.record(opened_by_proof(user, actor))
            await uow.record(Event("user.account.reclaimed", actor, Target("user", str(user)), details={"provider": vouched.upstream.key}))
            await self.tell_linked(uow, identity, named.account, vouched.upstream, actor, service=way.service, how="reclaimed")
            await uow.commit()
        account = replace(named.account, email_verified_at=now, deactivated_at=None, deactivated_by=None)
        return _Known(identity.id, NamedAccount(account, None, False, named.knowledge))

    async def tell_linked(
        self,
        uow: UnitOfWork,
        identity: Identity,
        account: Account,
        upstream: Upstream,
        actor: Actor,
        *,
        service: ServiceId | None,
        how: str,
    ) -> None:
        """On record, and by mail to the account's own address."""
        mail = self._templates.mail(
            "identity_linked",
            account.email.address,
            account=account.id,
            language=account.language or actor.language,
            provider=upstream.name,
            when=identity.linked_at,
            address=actor.address,
        )
        await uow.jobs.add(mail.as_job())
        await uow.record(identity_linked(identity, actor, service=service, how=how))

    async def _tell_unlinked(self, uow: UnitOfWork, identity: Identity, account: Account, upstream: Upstream, actor: Actor) -> None:
        """The same."""
        mail = self._templates.mail(
            "identity_unlinked",
            account.email.address,
            account=account.id,
            language=account.language or actor.language,
            provider=upstream.name,
            when=self._clock.now(),
            signed_out=False,
            address=actor.address,
        )
        await uow.jobs.add(mail.as_job())
        await uow.record(identity_unlinked(identity, actor, service=None))

    def _use(self, identity: IdentityId, vouched: Vouched, way: WayThrough) -> Callable[[UnitOfWork, Confirmed], Awaitable[None]]:
        async def use(uow: UnitOfWork, _: Confirmed) -> None:
            await uow.identities.keep_email(identity, vouched.asserted.email)
            await self._grants.keep(uow, identity, vouched.upstream, way, vouched.tokens)

        return use

    def _identity(self, user: UserId, vouched: Vouched) -> Identity:
        return new_identity(IdentityId(self._ids.new()), user, vouched.upstream, vouched.asserted, self._clock)

    def _word(self, vouched: Vouched, way: WayThrough, met: Encounter) -> Word:
        """An address that mail would not take may be of another domain than the one that it is looked up by."""
        asserted, vouches_in = vouched.asserted, None
        if met.realm is not None and asserted.email_is_verified and self._email(asserted) is not None:
            vouches_in = met.realm.organization
        return Word(provider=vouched.upstream.key, vouches_in=vouches_in, client_of=way.realm or way.organization)

    def _email(self, asserted: Asserted) -> Email | None:
        """None: the provider told no address, or none that mail could take."""
        try:
            return self._email_syntax.parse(asserted.email) if asserted.email else None
        except BadRequest:
            return None

    async def _gone(self, provider: str, browser: Token, place: Place, leaving: "_Leaving") -> str:
        state = self._secrets.token()
        kept = NewState(
            digest=state.digest(),
            browser_digest=browser.digest(),
            provider=provider,
            flow=leaving.flow,
            user=leaving.user,
            session=leaving.session,
            asked_in=leaving.asked_in,
            installed_client=self._providers.installed_client(provider),
            asks_consent=leaving.consent,
            created_at=self._clock.now(),
        )
        way = await self._lookup.leave(kept, place, leaving.begun)
        upstream = self._providers.found(provider, way) if leaving.flow is None else self._found(provider, place, way)
        asked = await self._asked(provider, state, leaving=leaving, scopes=way.service_scopes)
        if way.falls_back:
            # Nobody comes back from a provider that is wholly away, so that no call would ever show it.
            await self._outages.watch(upstream, self._protocols.look(upstream))
        url = await self._outages.watch(upstream, self._protocols.authorization_url(upstream, asked))
        self._metrics.upstream_sign_in(upstream.label, "begun")
        return url

    def _found(self, provider: str, place: Place, way: WayThrough) -> Upstream:
        """For a flow: its organization must be there."""
        if place.organization and way.organization is None:
            raise NotFound("There is no such organization, or it is not active", words="organization_unknown")
        return self._providers.found(provider, way)

    async def _asked(self, provider: str, state: Token, *, leaving: "_Leaving | None" = None, scopes: tuple[str, ...] = ()) -> Asked:
        nonce, verifier = derived(state, await self._server_secrets.get(STATES))
        return Asked(
            redirect_uri=self.callback(provider),
            state=state,
            nonce=nonce,
            verifier=verifier,
            scopes=scopes,
            login_hint="" if leaving is None else leaving.login_hint,
            fresh=leaving is not None and leaving.fresh,
            choose=leaving is not None and leaving.choose,
            consent=leaving is not None and leaving.consent and bool(scopes),
            offline=bool(scopes),
        )


class _Leaving(Frozen, kw_only=True):
    """Somebody who goes to a provider: in a flow, or to connect an identity to their account."""

    flow: FlowId | None = None
    begun: Flow | None = None
    user: UserId | None = None
    session: SessionId | None = None
    asked_in: SessionId | None = None
    login_hint: str = ""
    choose: bool = False
    fresh: bool = False
    consent: bool = False


def _place(flow: Flow, realm: str) -> Place:
    return Place(organization=flow.wanted.organization, service=flow.service, realm=realm)


# What is written before there is a session.
_WRITES: Final = frozenset({Linking.CREATE, Linking.CONNECT, Linking.REPLACE, Linking.RECLAIM})
_REASONS: Final = {
    Linking.UNVERIFIED: UNVERIFIED,
    Linking.OTHER_CONNECTED: OTHER_CONNECTED,
    Linking.NOT_FOR_ACCOUNT: NOT_FOR_ACCOUNT,
    Linking.DEACTIVATED: DEACTIVATED,
}


def new_identity(identity: IdentityId, user: UserId, upstream: Upstream, asserted: Asserted, clock: Clock) -> Identity:
    return Identity(
        id=identity,
        user=user,
        provider=upstream.key,
        issuer=asserted.issuer,
        subject=asserted.subject,
        email=asserted.email,
        linked_at=clock.now(),
    )
