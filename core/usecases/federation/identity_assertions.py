"""Identity assertions: an application brings what a person's directory has signed, and gets a token for an API in the person's name."""

from hashlib import sha256

import structlog

from core.domain.errors import Forbidden, NotFound
from core.domain.federation.oauth.clients import AuthenticatedClient, RegisteredClient
from core.domain.federation.oauth.grants import (
    AssertionVerdict,
    IssuedTokens,
    TokenRequest,
    assertion_accepted,
    audience_of,
    known_person,
    named_api,
    named_scopes,
    oauth_refusal,
    one_resource,
)
from core.domain.federation.oauth.refusals import UnauthorizedClient
from core.domain.identifiers import IdentityId, SessionId, UpstreamProviderId
from core.domain.identity.accounts import Account
from core.domain.identity.devices import Client
from core.domain.identity.sessions import Session, resource_claims
from core.domain.identity.sign_in import LastLook, open_context
from core.domain.identity.sign_in_domains import ProviderRequired, Word
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.identity_assertions import (
    SESSION_LASTS,
    IdentityAssertionFault,
    IdentityAssertionRefusal,
    IssuingConnection,
    UsedIdentityAssertion,
    claimed,
    kept_until,
    refusal_of,
    refused_assertion,
    rules_for,
    subject_of,
)
from core.domain.identity.upstream.jwt_assertions import (
    AcceptedAssertion,
    AssertionFault,
    AssertionRefused,
    TrustedKeys,
    accepted_assertion,
)
from core.domain.identity.upstream.sign_in import FEDERATED, OAuthError
from core.domain.key_proofs import KeyThumbprint, bound
from core.domain.secrets import Token
from core.domain.services.clients import read_client_id
from core.domain.tenancy.members import Member
from core.domain.tokens import TokenAudience
from core.frozen import Frozen, replace
from core.usecases.identity.devices import Devices
from core.usecases.identity.sessions import Sessions
from core.usecases.identity.sign_in_domains import SignInDomains
from ports.crypto import TokenSigner
from ports.federation.oauth import ClientLookup, ResourceLookup
from ports.identity.upstream import AssertionSignatures, ConnectionRecorder, IssuingConnections, UpstreamLookup, UpstreamProtocols
from ports.metrics import Metrics
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()


class _Asking(Frozen):
    """The application that brings an assertion, and what it asks for."""

    client: RegisteredClient
    resource: str | None
    scope: str | None
    sender: Client
    key: KeyThumbprint | None = None
    """Of which the request has shown a proof."""


class _Examined(Frozen):
    """A good assertion: what it opens, and for whom."""

    assertion: AcceptedAssertion
    account: Account
    identity: IdentityId
    audience: TokenAudience


class IdentityAssertions(Frozen):
    unit_of_work: UnitOfWorkFactory
    connections: IssuingConnections
    lookup: UpstreamLookup
    protocols: UpstreamProtocols
    signatures: AssertionSignatures
    clients: ClientLookup
    resources: ResourceLookup
    devices: Devices
    sign_in_domains: SignInDomains
    sessions: Sessions
    signer: TokenSigner
    recorder: ConnectionRecorder
    metrics: Metrics
    system: System
    issuer: str

    async def exchange(self, request: TokenRequest, client: AuthenticatedClient, sender: Client) -> IssuedTokens:
        """A token for one API. There is no refresh token: the session ends with the token, and the application asks the directory again.
        Raises `UnauthorizedClient` for a public client, `InvalidGrant`, `InvalidTarget` and `InvalidScope`.
        """
        if client.is_public or request.assertion is None:
            raise UnauthorizedClient
        text, resource = request.assertion.reveal(), one_resource(request.resources)
        connection = await self._connection(client.registered, text)
        if connection is None:
            raise oauth_refusal(IdentityAssertionRefusal(IdentityAssertionFault.ISSUER))
        try:
            assertion = await self._accepted(connection, text)
            examined = await self._examined(connection, assertion, _Asking(client.registered, resource, request.scope, sender, request.key))
            session = await self._opened(connection, client.registered, examined, request.key)
        except IdentityAssertionRefusal as refusal:
            self._tell_refused(connection, client.registered, refusal)
            raise oauth_refusal(refusal) from None
        return await self._issued(session, client.registered, examined.audience, request.key)

    async def try_out(self, member: Member, provider: UpstreamProviderId, text: str, sender: Client) -> AssertionVerdict:
        """What would come of an assertion, if the application that it names brought it now. Nothing is issued, used up or recorded. Raises
        `NotFound` unless the connection is the organization's.
        """
        connection = await self.connections.find_by_id(member.organization, provider)
        if connection is None:
            raise NotFound("There is no such upstream provider")
        try:
            examined, client = await self._tried(connection, text, sender)
            await self._opened(connection, client, examined, None, keeps=False)
        except IdentityAssertionRefusal as refusal:
            return AssertionVerdict(refusal.fault, refusal.came)
        return AssertionVerdict(None)

    async def _tried(self, connection: IssuingConnection, text: str, sender: Client) -> tuple[_Examined, RegisteredClient]:
        assertion = await self._accepted(connection, text)
        named = assertion.claims.get("client_id")
        client_id = read_client_id(named) if isinstance(named, str) else None
        client = None if client_id is None else await self.clients.find(client_id, None)
        if client is None or client.organization != connection.organization:
            raise IdentityAssertionRefusal(IdentityAssertionFault.CLIENT)
        if client.is_public:
            raise IdentityAssertionRefusal(IdentityAssertionFault.PUBLIC_CLIENT)
        resource = assertion.claims.get("resource")
        one = resource[0] if isinstance(resource, list | tuple) and resource and isinstance(resource[0], str) else None
        return await self._examined(connection, assertion, _Asking(client, one, None, sender)), client

    async def _connection(self, client: RegisteredClient, assertion: str) -> IssuingConnection | None:
        """The connection is looked for in the application's own organization alone: another organization may have one with this issuer."""
        _, issuer = claimed(assertion)
        if not isinstance(issuer, str):
            raise oauth_refusal(IdentityAssertionRefusal(IdentityAssertionFault.MALFORMED))
        return await self.connections.find(client.organization, issuer)

    async def _accepted(self, connection: IssuingConnection, text: str) -> AcceptedAssertion:
        if not connection.is_on:
            raise IdentityAssertionRefusal(IdentityAssertionFault.CONNECTION_OFF)
        if not connection.assertions.issues:
            raise IdentityAssertionRefusal(IdentityAssertionFault.NOT_ISSUING)
        try:
            signed = await self.signatures.signed(text, await self._keys(connection))
            return accepted_assertion(signed, rules_for(connection, self.issuer), self.system.clock.now())
        except AssertionRefused as refused:
            raise refusal_of(refused.fault) from None

    async def _keys(self, connection: IssuingConnection) -> TrustedKeys:
        """Those of its ID tokens, or those that an owner has named."""
        keys = connection.assertions.keys
        if connection.speaks_saml and keys is not None:
            return keys
        try:
            return TrustedKeys(address=await self.protocols.keys_address(connection.issuer))
        except OAuthError as failed:
            raise AssertionRefused(AssertionFault.KEYS_AWAY, failed.detail or failed.message) from None

    async def _examined(self, connection: IssuingConnection, assertion: AcceptedAssertion, asking: _Asking) -> _Examined:
        asserted = Asserted(connection.issuer, subject_of(assertion, connection, asking.client.client, asking.key))
        api, scopes = named_api(assertion.claims, asking.resource), named_scopes(assertion.claims, asking.scope)
        # The request comes from the application's own servers, whose address says nothing about the person.
        approach = await self.devices.observe(replace(asking.sender, address=None, device_token=None))
        met = await self.lookup.meet(str(connection.id), asserted, None, approach, organization=connection.organization)
        account, identity = known_person(asserted, met, connection)
        await self._require_way(account, connection)
        audience = audience_of(await self.resources.find(asking.client.service, [api], account.id), scopes)
        return _Examined(assertion, account, identity, audience)

    async def _require_way(self, account: Account, connection: IssuingConnection) -> None:
        """The rules of the organization that owns the domain of the address, as at every sign-in."""
        sign_in_domain = await self.sign_in_domains.of(account)
        if sign_in_domain is None:
            return
        word = Word(provider=str(connection.id))
        try:
            await self.sign_in_domains.require(sign_in_domain, word, is_platform_owner=account.is_platform_owner)
        except ProviderRequired:
            raise IdentityAssertionRefusal(IdentityAssertionFault.DOMAIN) from None

    async def _opened(
        self, connection: IssuingConnection, client: RegisteredClient, examined: _Examined, key: KeyThumbprint | None, *, keeps: bool = True
    ) -> Session:
        """The session, if everything still stands in its unit of work. Without `keeps`, nothing is stored, and nobody gets a token."""
        account, audience, now = examined.account, examined.audience, self.system.clock.now()
        session_id = SessionId(self.system.ids.new())
        ends_at = now + min(SESSION_LASTS, audience.lifetime or self.sessions.access_lifetime)
        token_id = str(examined.assertion.id)
        used = UsedIdentityAssertion(
            provider=connection.id,
            digest=sha256(token_id.encode("utf-8", "surrogatepass")).digest(),
            session=session_id,
            expires_at=kept_until(examined.assertion, ends_at),
        )
        async with self.unit_of_work() as uow:
            look = LastLook(user=account.id, identity=examined.identity, email=account.email, service=client.service)
            confirmed = await uow.sign_ins.confirm(look)
            if confirmed is None or not confirmed.is_connected:
                # Something of it has ended since the look before.
                raise IdentityAssertionRefusal(IdentityAssertionFault.DOMAIN)
            try:
                context = open_context(confirmed.destination, key=key, gives_tokens=keeps)
            except (Forbidden, NotFound):
                raise IdentityAssertionRefusal(IdentityAssertionFault.NOT_ADMITTED) from None
            (await uow.identity_assertions.use(used, account.id)).require()
            session = await self.sessions.begin(
                uow,
                confirmed.account,
                device=None,
                authenticated_by=(FEDERATED,),
                context=context,
                scopes=(),
                session_id=session_id,
                ends_by=ends_at,
                opened_through=str(connection.id),
            )
            await uow.sessions.grant(session.id, [audience])
            await uow.identity_assertions.enter(account.id, client.service, now)
            await uow.record(assertion_accepted(account.id, context, session.id, connection, audience))
            if keeps:
                await uow.commit()
        return session

    async def _issued(self, session: Session, client: RegisteredClient, audience: TokenAudience, key: KeyThumbprint | None) -> IssuedTokens:
        """Signs the token after the session's unit of work is committed. Both end together."""
        lifetime = session.ends_at - session.created_at
        claims = resource_claims(
            session,
            client.application(()),
            audience,
            issuer=self.issuer,
            token_id=str(self.system.ids.new()),
            now=session.created_at,
            lifetime=lifetime,
        )
        token = Token(await self.signer.sign_for_application(bound(claims, key), audience.algorithm))
        self.metrics.token_issued()
        self.metrics.connection_exchanged("assertion", succeeded=True)
        log.info("identity_assertion_accepted", service=str(client.service), session=str(session.id), resource=str(audience.id))
        return IssuedTokens(token, round(lifetime.total_seconds()), " ".join(audience.scopes) or None, key=key)

    def _tell_refused(self, connection: IssuingConnection, client: RegisteredClient, refusal: IdentityAssertionRefusal) -> None:
        self.recorder.record(refused_assertion(connection.id, refusal, self.system.clock.now()))
        self.metrics.connection_exchanged("assertion", succeeded=False)
        log.info("identity_assertion_refused", service=str(client.service), connection=str(connection.id), fault=refusal.fault.value)
