"""Token exchange: a service gets a token for another API, to act there in a person's name."""

from datetime import timedelta

import structlog

from core.domain.errors import Unauthorized
from core.domain.federation.oauth.clients import AuthenticatedClient
from core.domain.federation.oauth.exchanges import (
    ACCESS_TOKEN_TYPE,
    TokenExchange,
    exchange_request,
    exchanged,
    has_ended,
    no_access_token,
    subject_of,
)
from core.domain.federation.oauth.grants import IssuedTokens, TokenRequest
from core.domain.federation.oauth.oauth_errors import UnauthorizedClient
from core.domain.identifiers import SessionId
from core.domain.identity.devices import Client
from core.domain.secrets import Token
from core.frozen import Frozen
from ports.federation.exchanges import ExchangeStore
from ports.metrics import Metrics
from ports.system import System
from ports.tokens import TokenSigner, TokenVerifier
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()


class Exchanges(Frozen):
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
