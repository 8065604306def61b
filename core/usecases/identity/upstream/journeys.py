"""Redirects users to an identity provider, and exchanges the authorization code that they return with for the provider's claims."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

from core.domain.errors import NotFound
from core.domain.identifiers import ConnectionExchangeId, FlowId, SessionId, UpstreamProviderId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver, Prompt
from core.domain.identity.upstream.claims import Asserted, NotVouched, OddProfile, may_be_issued_by
from core.domain.identity.upstream.connection_tests import ConnectionExchange, ConnectionExchangeKind
from core.domain.identity.upstream.connections import directory_contexts
from core.domain.identity.upstream.directories import DirectoryRefused
from core.domain.identity.upstream.identities import ODD_PROFILE, Asker
from core.domain.identity.upstream.providers import ProviderOffer, ProviderOrigin, UnknownProvider, Upstream, origin_of, provider_key
from core.domain.identity.upstream.sign_in import (
    REPEATABLE,
    NewState,
    OAuthError,
    ProviderRequest,
    ReceivedTokens,
    ServicePlace,
    TakenState,
    UpstreamRefused,
    UsedState,
    WayThrough,
    derived,
    is_code,
)
from core.domain.secrets import Token
from core.frozen import Frozen, replace
from core.usecases.identity.upstream.providers import ProviderOutages, UpstreamProviders
from ports.crypto import ServerSecrets
from ports.identity.upstream import ConnectionRecorder, UpstreamLookup, UpstreamProtocols
from ports.metrics import Metrics
from ports.system import System

# The name of the key from which nonces and verifiers are derived.
STATES: Final = "upstream_states"


class Vouched(Frozen):
    """A provider's word, and the tokens that came with it."""

    upstream: Upstream
    asserted: Asserted
    tokens: ReceivedTokens


class Journeys(Frozen):
    """Builds the authorization request to an identity provider, and processes the response: it exchanges the code for the user's
    identity.
    """

    lookup: UpstreamLookup
    protocols: UpstreamProtocols
    providers: UpstreamProviders
    outages: ProviderOutages
    server_secrets: ServerSecrets
    recorder: ConnectionRecorder
    metrics: Metrics
    system: System
    base_url: str

    def callback(self, provider: str) -> str:
        """Returns the address to which the provider sends people back. Each provider has its own address, so that no provider's answer is
        taken for another's.
        """
        return f"{self.base_url}/auth/{provider}/callback"

    def offered_in(self, flow: Flow | None) -> Sequence[ProviderOffer]:
        """Returns the providers that the pages of a flow offer."""
        return self.providers.offered_in(flow)

    @property
    def has_any(self) -> bool:
        """Whether the installation has a provider of its own."""
        return bool(self.providers.offered_in(None))

    async def offered_at(self, organization: str) -> Sequence[ProviderOffer]:
        """Returns the providers for the services of the organization with this slug: the installation's and the organization's own."""
        await self.providers.further.refresh()
        own = await self.lookup.own(organization)
        return self.providers.offered(own, own.organization)

    async def refresh_offers(self) -> None:
        """Before a page shows what `offered_in` returns."""
        await self.providers.further.refresh()

    async def offered_to(self, caller: Caller) -> Sequence[ProviderOffer]:
        """Returns the providers that the caller can connect: the installation's, and those of the organization that the caller's session is
        in, or that the caller has chosen in the browser.
        """
        return await self.offered_at(caller.organization or caller.chosen_organization)

    def name(self, provider: str, otherwise: str = "") -> str:
        """Returns the provider's name for people. `otherwise` is the name of an organization's own provider."""
        return self.providers.name(provider, otherwise)

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
        """Returns the address at which the person signs in at the provider. `begins`: the flow is not stored yet. `consent`: the provider
        asks again for consent to the service's scopes. `realm` is the slug of the organization that leads people of its domain to this
        provider. Raises `UnknownProvider`, `ProviderOff`, `OAuthError`, and `NotFound` when the flow's organization is gone.
        """
        wanted = flow.wanted
        leaving = _Leaving(
            flow=flow.id,
            begun=flow if begins else None,
            login_hint=login_hint or flow.email,
            choose=choose or wanted.prompt is Prompt.SELECT_ACCOUNT,
            consent=consent,
            fresh=wanted.wants_fresh_sign_in,
            contexts=directory_contexts(flow.request.get("acr_values")),
        )
        return await self._gone(provider_key(provider), browser, _place(flow, realm), leaving)

    async def name_in(self, flow: Flow, provider: str, *, realm: str = "") -> str:
        """Returns the provider's name for people, before they leave for it. Raises the errors of `leave`, but calls nobody."""
        key, place = provider_key(provider), _place(flow, realm)
        return self._found(key, place, await self.lookup.way(key, place)).name

    async def name_at(self, provider: str, place: ServicePlace) -> str:
        """Returns the provider's name for people when there is no flow. Raises `UnknownProvider` and `ProviderOff`."""
        key = provider_key(provider)
        return self.providers.found(key, await self.lookup.way(key, place)).name

    async def leave_to_connect(self, provider: str, browser: Token, caller: Caller, asker: Asker | None = None) -> str:
        """Does what `leave` does, for a person who is signed in and connects an identity. `asker`: another session of the person's has
        asked for this, and the person is led back to that session's application. Raises the errors of `leave`.
        """
        place = ServicePlace(organization=caller.organization or caller.chosen_organization) if asker is None else asker.place
        asked_in = None if asker is None else asker.session
        leaving = _Leaving(user=caller.user, session=caller.session, asked_in=asked_in, choose=True, consent=True)
        return await self._gone(provider_key(provider), browser, place, leaving)

    async def leave_to_test(self, provider: str, browser: Token, caller: Caller) -> str:
        """Does what `leave` does, for a platform owner who tests a further provider, also one that is off. Raises the errors of `leave`."""
        key = provider_key(provider)
        if origin_of(key) is not ProviderOrigin.FURTHER:
            raise UnknownProvider
        leaving = _Leaving(user=caller.user, session=caller.session, choose=True, tests=True)
        return await self._gone(key, browser, ServicePlace(), leaving)

    async def take(self, provider: str, state: Token, browser: Token | None) -> TakenState:
        """Returns, once, what the returning person left for. Raises `UnknownProvider`, and `FlowOver` when the state does not exist, has
        expired, was used, or belongs to another browser.
        """
        key = provider_key(provider)
        taken = None if browser is None else await self.lookup.take(state.digest(), key, browser.digest())
        if taken is None:
            raise FlowOver
        return taken

    async def vouched(self, taken: TakenState, state: Token, code: Token, issuer: str | None) -> Vouched:
        """Exchanges the code for the provider's word. `issuer` is the issuer that the answer names. Raises `ProviderOff` when the provider
        has been turned off meanwhile, or has another client, `OAuthError` when the provider's word shows no identity, and
        `UpstreamRefused` when what it tells of this person does not.
        """
        upstream = self.providers.found(taken.provider, taken.way, even_off=taken.tests)
        if upstream.client.client_id != taken.client_id:
            raise OAuthError(detail="the client at the provider was changed meanwhile")
        if not upstream.states_issuer:
            # Nothing is there to compare it with. The state and the way back, which are of this provider alone, say whose the answer is.
            issuer = None
        try:
            if issuer is not None and not may_be_issued_by(upstream.endpoints.issuer, issuer):
                raise NotVouched("the answer is another issuer's")  # noqa: TRY301 - one way out for all of them
            if not is_code(code):
                raise NotVouched("no code")  # noqa: TRY301
            flow = taken.flow
            since = None if flow is None else flow.wanted.signed_in_since(flow.created_at, self.system.clock.now())
            asked = replace(await self._asked(taken.provider, state), since=since, answer_names_issuer=issuer is not None)
            asserted, tokens = await self.outages.watch_return(upstream, taken.way, self.protocols.redeem(upstream, code, asked))
            if issuer is not None and issuer != asserted.issuer:
                raise NotVouched("the answer is another tenant's")  # noqa: TRY301
        except (NotVouched, OAuthError) as refusal:
            raise self._failed(upstream, refusal) from None
        if upstream.organization is not None and not upstream.records_itself:
            self._recorded(upstream)
        if upstream.further is not None:
            asserted = replace(asserted, naming=upstream.further.naming)
        return Vouched(upstream, asserted, tokens)

    def _failed(self, upstream: Upstream, refusal: NotVouched | OAuthError) -> OAuthError | UpstreamRefused:
        """The refusal for the person. For an organization's own provider, it has the reference of an entry in the recorder. Whoever has an
        account at a provider of the installation may have an odd profile there: that is no failure of the provider's.
        """
        is_word = isinstance(refusal, NotVouched | DirectoryRefused)
        self.metrics.upstream_sign_in(upstream.label, "not_vouched" if is_word else "failed")
        if isinstance(refusal, DirectoryRefused):
            # The recorder has the answer already.
            return refusal
        if isinstance(refusal, NotVouched):
            detail = f"{upstream.label}: {refusal}"
            if upstream.organization is None:
                if not isinstance(refusal, OddProfile):
                    return OAuthError(detail=detail)
                self.metrics.upstream_odd_profile(upstream.label)
                return UpstreamRefused(ODD_PROFILE, detail=detail)
            return DirectoryRefused(
                self._recorded(upstream, "not_vouched", f"The response does not identify a person: {refusal}."), detail=detail
            )
        if upstream.organization is not None:
            refusal.words = "directory_away"
            refusal.values = {"reference": self._recorded(upstream, "away", str(refusal.detail or refusal.message))}
        return refusal

    def _recorded(self, upstream: Upstream, fault: str = "", reason: str = "") -> str:
        """Tells the recorder of an organization's own provider what came of a return. Returns the reference of the entry."""
        exchange = ConnectionExchange(
            id=ConnectionExchangeId(self.system.ids.new()),
            provider=UpstreamProviderId(UUID(upstream.key)),
            kind=ConnectionExchangeKind.SIGN_IN,
            succeeded=not fault,
            fault=fault,
            reason=reason,
            created_at=self.system.clock.now(),
        )
        self.recorder.record(exchange)
        self.metrics.connection_exchanged(exchange.kind.value, succeeded=exchange.succeeded)
        return exchange.reference

    async def _gone(self, provider: str, browser: Token, place: ServicePlace, leaving: "_Leaving") -> str:
        state = self.system.secrets.token()
        kept = NewState(
            digest=state.digest(),
            browser_digest=browser.digest(),
            provider=provider,
            flow=leaving.flow,
            user=leaving.user,
            session=leaving.session,
            asked_in=leaving.asked_in,
            installed_client=self.providers.installed_client(provider),
            tests=leaving.tests,
            asks_consent=leaving.consent,
            created_at=self.system.clock.now(),
        )
        way = await self.lookup.leave(kept, place, leaving.begun)
        upstream = (
            self.providers.found(provider, way, even_off=leaving.tests) if leaving.flow is None else self._found(provider, place, way)
        )
        asked = await self._asked(provider, state, leaving=leaving, scopes=way.service_scopes)
        if upstream.organization is not None and upstream.organization == way.organization:
            asked = replace(asked, contexts=leaving.contexts)
        if way.falls_back:
            # Nobody comes back from a provider that is wholly away, so a look on the way there has to notice the outage.
            await self.outages.watch(upstream, self.protocols.look(upstream, is_away=way.is_away))
        url = await self.outages.watch(upstream, self.protocols.authorization_url(upstream, asked))
        self.metrics.upstream_sign_in(upstream.label, "begun")
        return url

    def _found(self, provider: str, place: ServicePlace, way: WayThrough) -> Upstream:
        """Returns the provider for a flow, whose organization must exist."""
        if place.organization and way.organization is None:
            raise NotFound("There is no such organization, or it is not active", words="organization_unknown")
        return self.providers.found(provider, way)

    async def _asked(
        self, provider: str, state: Token, *, leaving: "_Leaving | None" = None, scopes: tuple[str, ...] = ()
    ) -> ProviderRequest:
        nonce, verifier = derived(state, await self.server_secrets.get(STATES))
        return ProviderRequest(
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
    """A person who leaves for a provider: in a flow, or to connect an identity to their account."""

    flow: FlowId | None = None
    begun: Flow | None = None
    user: UserId | None = None
    session: SessionId | None = None
    asked_in: SessionId | None = None
    login_hint: str = ""
    choose: bool = False
    fresh: bool = False
    consent: bool = False
    tests: bool = False
    contexts: tuple[str, ...] = ()


def _place(flow: Flow, realm: str) -> ServicePlace:
    return ServicePlace(organization=flow.wanted.organization, service=flow.service, realm=realm)


LOOK_AGAIN_AFTER: Final = 0.1
_LOOKS: Final = int(REPEATABLE.total_seconds() / LOOK_AGAIN_AFTER)


class RepeatedReturns(Frozen):
    """Answers a repeated callback. A browser that returns twice drops the first response, and needs the same response again."""

    lookup: UpstreamLookup
    pause: Callable[[float], Awaitable[None]]

    async def wait(self, provider: str, state: Token, browser: Token | None) -> UsedState:
        """Waits for the outcome of the first return with this state in this browser. Raises `UnknownProvider`, and `FlowOver` when there
        was no first return, or the first return led nowhere.
        """
        key = provider_key(provider)
        for _ in range(_LOOKS):
            used = None if browser is None else await self.lookup.used(state.digest(), key, browser.digest())
            if used is None:
                break
            if used.has_led_somewhere:
                return used
            await self.pause(LOOK_AGAIN_AFTER)
        raise FlowOver

    async def tell(self, state: Token, led_to: str = "") -> None:
        """Stores where the first return led to. An empty address means that the first return led nowhere."""
        await self.lookup.settle(state.digest(), led_to)

    async def tell_of_failure(self, provider: str, state: Token, browser: Token | None, led_to: str) -> None:
        """Stores where a second return goes on after the first has failed: in the flow, if the first return had signed the person in by
        then.
        """
        used = None if browser is None else await self.lookup.used(state.digest(), provider_key(provider), browser.digest())
        if used is None or not used.has_led_somewhere:
            await self.tell(state, led_to)
