"""The grant types of the token endpoint, which exchange a code, a token or an assertion for tokens."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

import structlog

from core.domain.claims import LONG_ID_TOKEN, largest
from core.domain.errors import BadRequest, Forbidden, Unauthorized
from core.domain.federation.oauth.authorizations import assertions_alone
from core.domain.federation.oauth.clients import AuthenticatedClient, RegisteredClient, require_open
from core.domain.federation.oauth.exchanges import (
    ACCESS_TOKEN_TYPE,
    TokenExchange,
    exchange_request,
    exchanged,
    has_ended,
    no_access_token,
    subject_of,
)
from core.domain.federation.oauth.grants import (
    CLIENT_CREDENTIALS,
    DEVICE_CODE,
    JWT_BEARER,
    TOKEN_EXCHANGE,
    Granted,
    IssuedTokens,
    TokenRequest,
    WorkloadRefused,
    client_claims,
    no_such_grant,
    one_resource,
)
from core.domain.federation.oauth.oidc import id_claims
from core.domain.federation.oauth.refusals import GrantOfAgent, InvalidGrant, InvalidScope, InvalidTarget, UnauthorizedClient
from core.domain.federation.oauth.resources import LONGEST_SCOPES, OPENID, foreign_scopes, known, of_application, words
from core.domain.federation.signal_grants import signals_asked
from core.domain.federation.signals import SignalGrant
from core.domain.identifiers import ClientId, SessionId, TrustedIssuerId
from core.domain.identity.devices import Client
from core.domain.identity.refresh_tokens import BeyondScopes, Holder
from core.domain.identity.sessions import AgentsForbidden, OpenedSession
from core.domain.identity.upstream.jwt_assertions import AssertionFault, AssertionRefused, SignedToken, TrustedKeys, require_readable
from core.domain.key_proofs import KeyThumbprint
from core.domain.secrets import Token
from core.domain.services.resource_servers import SIGNAL_SCOPES
from core.domain.services.services import ServiceType
from core.domain.tenancy.trusted_issuers import TrustedIssuer, admitted, farthest, of_issuer
from core.domain.tokens import NoAudience, TokenAudience
from core.frozen import Frozen, replace
from core.usecases.federation.identity_assertions import IdentityAssertions
from core.usecases.identity.sessions import Sessions
from core.usecases.tenancy.management_keys import KeyTokens
from ports.crypto import TokenSigner, TokenVerifier
from ports.federation.oauth import ClientLookup, ExchangeStore, ResourceLookup
from ports.federation.signals import SignalCallers
from ports.identity.upstream import AssertionSignatures
from ports.metrics import Metrics
from ports.system import Presence, System
from ports.tenancy.members import TrustedIssuerStore
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()


class Exchanges(Frozen):
    """The token exchange grant (RFC 8693): a service gets an access token for another API, to act there on behalf of a user."""

    unit_of_work: UnitOfWorkFactory
    store: ExchangeStore
    verifier: TokenVerifier
    signer: TokenSigner
    metrics: Metrics
    system: System
    issuer: str
    access_lifetime: timedelta

    async def exchange(self, request: TokenRequest, client: AuthenticatedClient, sender: Client) -> IssuedTokens:
        """Exchanges an access token that the client was given, or that an API of its service received. Raises `UnauthorizedClient` for a
        public client, `SubjectRefused`, `BadRequest`, `InvalidTarget` and `InvalidScope`.
        """
        if client.is_public:
            raise UnauthorizedClient
        asked = exchange_request(request)
        try:
            claims = await self.verifier.verify_issued(asked.subject_token.reveal())
        except Unauthorized as refusal:
            raise no_access_token(refusal.detail) from None
        registered = client.registered
        subject = subject_of(claims, registered, request.key)
        found = await self.store.find(subject, registered.service, asked.resource)
        if found is None:
            raise has_ended()
        session, now = SessionId(self.system.ids.new()), self.system.clock.now()
        lifetime = self.access_lifetime
        exchange = exchanged(asked, subject, found, registered, session=session, now=now, lifetime=lifetime, key=request.key)
        if not (await self._opened(exchange, sender) if found.is_first else await self.store.add(exchange)):
            raise has_ended()
        return await self._issued(exchange)

    async def _opened(self, exchange: TokenExchange, sender: Client) -> bool:
        """Opens the session, and records that the service acts for the person at this API."""
        async with self.unit_of_work() as uow:
            if not await uow.exchanges.add(exchange):
                return False
            await uow.record(exchange.recorded(sender.actor()))
            await uow.commit()
        return True

    async def _issued(self, exchange: TokenExchange) -> IssuedTokens:
        claims = exchange.claims(self.issuer, str(self.system.ids.new()))
        token = Token(await self.signer.sign_for_application(claims, exchange.audience.algorithm))
        self.metrics.token_issued()
        self.metrics.token_exchanged()
        log.info(
            "token_exchanged",
            person=str(exchange.subject.user),
            service=str(exchange.client.service),
            resource=str(exchange.audience.id),
            session=str(exchange.session),
            actors=exchange.acting.depth,
        )
        lasts = exchange.ends_at.timestamp() - int(exchange.created_at.timestamp())
        scope = " ".join(exchange.audience.scopes) or None
        return IssuedTokens(token, int(lasts), scope, issued_token_type=ACCESS_TOKEN_TYPE, key=exchange.key)


class Grant(Protocol):
    """One grant type whose tokens stand for a person. It raises `BadRequest` or one of `oauth_errors`."""

    async def __call__(self, request: TokenRequest, client: AuthenticatedClient, sender: Client) -> Granted: ...


class Grants(Frozen):
    """The token endpoint: selects the grant by its type, and signs the tokens."""

    grants: Mapping[str, Grant]
    """The grants by their types. The client credentials grant is built in, because that grant opens no session, and so are exchange and
    identity assertions, because their sessions have no refresh token.
    """
    sessions: Sessions
    resources: ResourceLookup
    exchanges: Exchanges
    assertions: IdentityAssertions
    signer: TokenSigner
    metrics: Metrics
    system: System
    issuer: str
    access_lifetime: timedelta

    @property
    def types(self) -> tuple[str, ...]:
        """All grant types. `DeviceFlow` exchanges device codes, because it looks the client up together with the code. `Workloads`
        exchanges assertions, which stand in place of the client's credentials.
        """
        return (*self.grants, CLIENT_CREDENTIALS, DEVICE_CODE, TOKEN_EXCHANGE, JWT_BEARER)

    async def exchange(self, request: TokenRequest, client: AuthenticatedClient, sender: Client) -> IssuedTokens:
        """Raises `UnsupportedGrantType`, `KeyProofMissing` and the errors of the grant."""
        client.registered.require_bound(request.key)
        if request.grant_type == CLIENT_CREDENTIALS:
            if client.is_public:
                raise UnauthorizedClient
            return await self.of_client(request, client.registered)
        if client.registered.service_type is ServiceType.PROXY:
            # Its people have a cookie on its host, and nothing that the proxy could hand on.
            raise UnauthorizedClient
        if request.grant_type == TOKEN_EXCHANGE:
            return await self.exchanges.exchange(request, client, sender)
        if request.grant_type == JWT_BEARER:
            return await self.assertions.exchange(request, client, sender)
        grant = self.grants.get(request.grant_type)
        if grant is None:
            raise no_such_grant(request.grant_type)
        return await self.issue(await grant(request, client, sender), client, request.key)

    async def issue(self, granted: Granted, client: AuthenticatedClient, key: KeyThumbprint | None = None) -> IssuedTokens:
        """Signs the tokens after the session's unit of work is committed: a token must not vouch for a session that does not exist. The
        access token is bound to the `key`.
        """
        opened = await self.sessions.with_facts(granted.opened)
        pair = await self.sessions.tokens(opened, key)
        scopes = () if opened.application is None else opened.application.scopes
        id_token = None
        if OPENID in scopes:
            now = self.system.clock.now()
            claims = id_claims(
                replace(granted, opened=opened),
                client=client.registered.client,
                access_token=pair.access_token,
                issuer=self.issuer,
                now=now,
                expires_at=now + timedelta(seconds=pair.expires_in),
                session_lifetime=client.registered.session_lifetime,
            )
            text = await self.signer.sign_id(claims, client.registered.id_token_algorithm)
            if len(text) > LONG_ID_TOKEN:
                # Only names: values may be personal.
                service = client.registered.context.service
                log.warning("id_token_is_long", service=str(service), length=len(text), claims=largest(claims))
            id_token = Token(text)
        at_audience = () if opened.audience is None else opened.audience.scopes
        acts_for = opened.session.user if opened.application is not None and opened.application.is_agent else None
        granted_scopes = " ".join((*scopes, *at_audience)) or None
        return IssuedTokens(pair.access_token, pair.expires_in, granted_scopes, pair.refresh_token, id_token, acts_for=acts_for, key=key)

    async def of_client(self, request: TokenRequest, client: RegisteredClient) -> IssuedTokens:
        """A token of the client's own (RFC 6749 section 4.4), for a client that has authenticated itself. Only a token for an API costs a
        look at the database. Raises `KeyProofMissing`.
        """
        client.require_bound(request.key)
        scopes = signal_scopes(request)
        audience = None if scopes else await self._audience_of_client(request, client)
        lifetime, algorithm = self.access_lifetime, client.access_token_algorithm
        if audience is not None:
            lifetime, algorithm = audience.lifetime or lifetime, audience.algorithm
        claims = client_claims(
            client,
            audience,
            issuer=self.issuer,
            token_id=str(self.system.ids.new()),
            now=self.system.clock.now(),
            lifetime=lifetime,
            scopes=scopes,
            key=request.key,
        )
        token = Token(await self.signer.sign_for_application(claims, algorithm))
        self.metrics.token_issued()
        scope = " ".join(scopes if audience is None else audience.scopes) or None
        return IssuedTokens(token, int(lifetime.total_seconds()), scope, key=request.key)

    async def _audience_of_client(self, request: TokenRequest, client: RegisteredClient) -> TokenAudience | None:
        """The API of the client's own token. Raises `InvalidTarget`, `InvalidScope`."""
        resource = one_resource(request.resources)
        if resource is None:
            if request.scope is not None:
                raise InvalidScope("A client's own token has scopes of an API that it names as its resource, or those of signals")
            return None
        offered = await self.resources.find(client.service, [resource], None)
        return of_application(offered, words(request.scope or ""))


def signal_scopes(request: TokenRequest) -> Sequence[str]:
    """The scopes of a client's own token for signals, for receivers that ask for them. A token without scopes opens signals, too."""
    asked = words(request.scope or "")
    return asked if not request.resources and SIGNAL_SCOPES.issuperset(asked) else ()


class RefreshGrant(Frozen):
    """The refresh token grant, which continues a session."""

    sessions: Sessions
    signal_callers: SignalCallers

    async def __call__(self, request: TokenRequest, client: AuthenticatedClient, sender: Client) -> Granted:
        if request.refresh_token is None:
            raise BadRequest("refresh_token: send the refresh token that you received last")
        named = _words_of(request.scope)
        holder = Holder(
            client.registered.client,
            client.registered.service,
            # With an API, the scopes of signals can only be the API's own.
            (*known(named), *(() if request.resources else signals_asked(named))),
            client.is_public,
            one_resource(request.resources),
            foreign_scopes(named),
            request.key,
        )
        try:
            continued = await self.sessions.continued(request.refresh_token, sender, holder)
        except BeyondScopes:
            raise InvalidScope from None
        except NoAudience as refusal:
            raise InvalidTarget(str(refusal)) from None
        except AgentsForbidden as refusal:
            raise GrantOfAgent(refusal.message, detail=refusal.detail) from None
        except (Unauthorized, Forbidden) as refusal:
            raise InvalidGrant(detail=refusal.detail or refusal.message) from None
        opened = await self._standing(continued.opened)
        return Granted(opened, continued.email_is_verified, continued.role, profile=continued.profile)

    async def _standing(self, opened: OpenedSession) -> OpenedSession:
        """Without the scopes of signals once their person may no longer grant them, or signals are off. Only a session with them costs
        a look.
        """
        application = opened.application
        scopes = () if application is None else signals_asked(application.scopes)
        if application is None or not scopes:
            return opened
        grant = SignalGrant(opened.session.id, opened.session.user, scopes)
        found = await self.signal_callers.find_granted(grant, self.sessions.system.clock.now())
        if found is not None and found.settings is not None:
            return opened
        left = tuple(one for one in application.scopes if one not in scopes)
        return replace(opened, application=replace(application, scopes=left))


def asked_scopes(text: str | None, *, of_apis: bool = False) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The scopes of ours that a client asks for, and the scopes of APIs. Raises `InvalidScope` when all of the asked scopes are unknown: a
    scope that is none of ours is known only to APIs.
    """
    named = _words_of(text)
    if named and not of_apis and not known(named):
        raise InvalidScope
    return known(named), foreign_scopes(named) if of_apis else ()


def _words_of(text: str | None) -> tuple[str, ...]:
    """Raises `InvalidScope` for a text that names nothing, or too much."""
    if text is None:
        return ()
    named = words(text)
    if len(text) > LONGEST_SCOPES or not named:
        raise InvalidScope
    return named


class Workloads(Frozen):
    """The JWT bearer grant for workloads: a signed token of a trusted issuer takes the place of a client secret (RFC 7523)."""

    rules: TrustedIssuerStore
    clients: ClientLookup
    signatures: AssertionSignatures
    grants: Grants
    key_tokens: KeyTokens
    presence: Presence[TrustedIssuerId]
    metrics: Metrics
    system: System

    async def exchange(self, request: TokenRequest, client: ClientId) -> IssuedTokens:
        """A token as the client credentials grant gives it, or one with the rights of a management key. `client` is the client id of a
        service, or the id of the key: the trusted issuers are found by it alone. Raises `BadRequest`, `WorkloadRefused`,
        `OrganizationNotActive`, and for a service the errors of the client credentials grant.
        """
        if request.assertion is None:
            raise BadRequest("assertion: send the signed token of the workload")
        try:
            rule = await self._rule(client, request.assertion.reveal())
        except AssertionRefused as refused:
            log.info("workload_refused", client=client, fault=refused.fault.value, reason=str(refused))
            raise WorkloadRefused(refused.fault, claim=refused.claim, detail=str(refused)) from None
        issued = await self._of_service(request, client) if rule.key is None else await self._of_key(request, rule)
        self.presence.seen(rule.id, self.system.clock.now())
        log.info("workload_admitted", client=client, trusted_issuer=str(rule.id))
        return issued

    async def _rule(self, client: ClientId, assertion: str) -> TrustedIssuer:
        """The first rule that the assertion keeps. Raises `AssertionRefused`."""
        require_readable(assertion)
        now = self.system.clock.now()
        checked: dict[str, SignedToken | AssertionRefused] = {}
        refusals: list[AssertionRefused] = []
        for rule in of_issuer(await self.rules.asked_by(client), assertion):
            # Rules for one issuer mostly have the same keys: one check of the signature is enough for them.
            keys = repr((rule.jwks_uri, rule.jwks))
            if keys not in checked:
                checked[keys] = await self._signed(assertion, rule.keys)
            signed = checked[keys]
            if isinstance(signed, AssertionRefused):
                refusals.append(signed)
                continue
            try:
                admitted(rule, signed, now)
            except AssertionRefused as refused:
                refusals.append(refused)
            else:
                return rule
        raise farthest(refusals)

    async def _signed(self, assertion: str, keys: TrustedKeys) -> SignedToken | AssertionRefused:
        try:
            return await self.signatures.signed(assertion, keys)
        except AssertionRefused as refused:
            return refused

    async def _of_service(self, request: TokenRequest, client: ClientId) -> IssuedTokens:
        registered = await self.clients.find(client, None)
        if registered is None or not registered.service_type.is_confidential:
            # The service was deleted meanwhile, or is installed on people's devices since.
            raise WorkloadRefused(AssertionFault.ISSUER)
        require_open(registered)
        if registered.holds_fapi2:
            raise assertions_alone("a workload came in place of the client's own key")
        return await self.grants.of_client(request, registered)

    async def _of_key(self, request: TokenRequest, rule: TrustedIssuer) -> IssuedTokens:
        if request.scope is not None or request.resources:
            raise BadRequest("scope: a management key's token has the key's rights, and is for no API")
        try:
            token, seconds = await self.key_tokens.issue(rule)
        except Unauthorized as refusal:
            raise WorkloadRefused(AssertionFault.ISSUER, detail=refusal.message) from None
        self.metrics.token_issued()
        return IssuedTokens(token, seconds)
