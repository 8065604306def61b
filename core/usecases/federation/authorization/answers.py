"""How an authorization request is answered: with a code, with tokens or with an error; and the consent that is given on the way."""

from collections.abc import Sequence

from core.domain.audiences import TokenAudience
from core.domain.errors import NotFound
from core.domain.federation.oauth.authorization_codes import LOGGED_ALREADY, ApprovedAuthorization, code_challenge
from core.domain.federation.oauth.authorization_steps import (
    RequestingApplication,
    SignedInPerson,
)
from core.domain.federation.oauth.authorizations import (
    AuthorizationRefused,
    AuthorizationRequest,
)
from core.domain.federation.oauth.clients import AuthenticatedClient, AuthenticationMethod, RegisteredClient
from core.domain.federation.oauth.consents import Consent
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, TokenRequest
from core.domain.federation.oauth.redirects import Answered, Recipient
from core.domain.federation.oauth.unplaced_clients import UnplacedClient
from core.domain.identifiers import ConsentId, ServiceId, UserId
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow
from core.domain.identity.sessions import Context
from core.domain.identity.sign_in import SESSION_PROVIDER
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.services.services import ServiceType
from core.domain.signing_keys import TokenAlgorithm
from core.frozen import Frozen, replace
from core.usecases.federation.authorization_codes import AuthorizationCodes
from core.usecases.federation.consents import give_consent
from core.usecases.federation.unplaced_clients import UnplacedClients
from core.usecases.identity.flows import complete_once
from core.usecases.identity.sessions import Sessions
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Allowance(Frozen):
    """The grant to an application, and the consent that a person has just given, with the person."""

    audiences: Sequence[TokenAudience]
    consent: Consent | None = None
    actor: Actor | None = None
    by_trust: bool = False


class AuthorizationAnswers(Frozen):
    unit_of_work: UnitOfWorkFactory
    unplaced: UnplacedClients
    codes: AuthorizationCodes
    sessions: Sessions
    issuer: str
    system: System

    async def approved(
        self,
        request: AuthorizationRequest,
        application: RequestingApplication,
        signed_in: SignedInPerson,
        flow: Flow | None,
        allowed: Allowance,
    ) -> Answered:
        """Answers with a code."""
        approved = ApprovedAuthorization(
            service=application.service,
            user=signed_in.user,
            parent=signed_in.session,
            redirect_uri=request.recipient.redirect_uri,
            code_challenge=request.code_challenge,
            nonce=request.nonce,
            scopes=request.scopes,
            auth_time=signed_in.proved_at,
            stated_at=signed_in.stated_at,
            authenticated_by=signed_in.authenticated_by,
            provider=_provider(flow, signed_in, is_agent=application.is_agent),
            audiences=allowed.audiences,
            # The same form again gets another code: the browser has dropped the first.
            pushed=None if flow is not None and flow.repeats else request.pushed,
            key=request.key,
        )
        new = await self._newly_allowed(application, allowed)
        async with self.unit_of_work() as uow:
            # The account is locked before the flow, in the same order as in transactions that end both.
            await self._hold(uow, new, signed_in.user)
            if flow is not None:
                await complete_once(uow, flow, self.system.clock.now())
            service = await self._give(uow, new, allowed)
            approved = approved if service is None else replace(approved, service=service)
            code = await self.codes.issue(uow, approved, application.registered.redirect_uris, by_trust=allowed.by_trust)
            await uow.commit()
        return request.recipient.answered(self.issuer, {"code": code.reveal()})

    async def with_tokens(
        self,
        request: AuthorizationRequest,
        application: RequestingApplication,
        signed_in: SignedInPerson,
        flow: Flow | None,
        allowed: Allowance,
        *,
        sender: Client,
    ) -> Answered:
        """Answers with tokens. An ordinary code is issued and redeemed here, by the same rules and with the same log entries."""
        verifier = self.system.secrets.token()
        answered = await self.approved(replace(request, code_challenge=code_challenge(verifier)), application, signed_in, flow, allowed)
        grant = TokenRequest(
            grant_type=AUTHORIZATION_CODE,
            code=Token(answered.fields["code"]),
            redirect_uri=request.recipient.redirect_uri,
            code_verifier=verifier,
        )
        granted = await self.codes.redeem(grant, _as_client(application), sender)
        tokens = await self.sessions.tokens(granted.opened)
        fields = {
            "access_token": tokens.access_token.reveal(),
            "refresh_token": tokens.refresh_token.reveal(),
            "token_type": "Bearer",
            "expires_in": str(tokens.expires_in),
        }
        return request.recipient.answered(self.issuer, fields)

    def refused(self, answers_to: Recipient, refusal: AuthorizationRefused) -> Answered:
        answered = answers_to.answered(self.issuer, {"error": refusal.word.value, "error_description": refusal.message})
        return replace(answered, recorded_as=refusal.recorded_as)

    async def keep(self, application: RequestingApplication, allowed: Allowance) -> None:
        """Keeps the consent of a person who has to sign in again before the application gets its code."""
        if allowed.consent is None:
            return
        new = await self._newly_allowed(application, allowed)
        async with self.unit_of_work() as uow:
            await self._hold(uow, new, allowed.consent.user)
            await self._give(uow, new, allowed)
            await uow.commit()

    async def complete(self, flow: Flow, *, refused: bool = False) -> None:
        if flow.repeats:
            return
        async with self.unit_of_work() as uow:
            await complete_once(uow, flow, self.system.clock.now(), refused=refused)
            await uow.commit()

    async def _newly_allowed(self, application: RequestingApplication, allowed: Allowance) -> UnplacedClient | None:
        """The client that the person has just allowed, if nobody has placed it yet. Raises `ClientRefused`."""
        if application.unplaced is None or allowed.consent is None:
            return None
        await self.unplaced.count(allowed.consent.user)
        return application.unplaced

    async def _hold(self, uow: UnitOfWork, new: UnplacedClient | None, user: UserId) -> None:
        if new is not None:
            await self.unplaced.hold(uow, new)
        await uow.accounts.hold_shared(user)

    async def _give(self, uow: UnitOfWork, new: UnplacedClient | None, allowed: Allowance) -> ServiceId | None:
        """The service that the consent is for, which the consent makes if the client is new. Raises `NotFound`, `ClientRefused`."""
        if allowed.consent is None or allowed.actor is None:
            return None
        consent = allowed.consent
        if new is not None:
            consent = replace(consent, service=await self.unplaced.place(uow, new, allowed.actor))
        if not await give_consent(uow, ConsentId(self.system.ids.new()), consent, allowed.actor):
            raise NotFound("This application does not exist any more", words="application_unknown")
        return consent.service


def _as_client(application: RequestingApplication) -> AuthenticatedClient:
    context = Context(application.organization, application.organization_slug, application.service, application.slug)
    registered = RegisteredClient(
        client=application.registered.client_id,
        context=context,
        service=application.service,
        organization=application.organization,
        organization_is_active=application.organization_is_active,
        service_type=ServiceType.WEB,
        id_token_algorithm=TokenAlgorithm.RS256,
        access_token_algorithm=TokenAlgorithm.ES256,
        keys=None,
        has_secret=False,
        secret=None,
    )
    return AuthenticatedClient(registered, AuthenticationMethod.NONE)


def _provider(flow: Flow | None, signed_in: SignedInPerson, *, is_agent: bool) -> str:
    """The provider's name in the log of sign-ins: how the person signed in for this request, or the name for an existing session. Empty
    when the log has the sign-in already; that an agent acts for the person from now on is an entry of its own.
    """
    if flow is None or flow.session != signed_in.session:
        return SESSION_PROVIDER
    if flow.sign_in_is_logged and not is_agent:
        return LOGGED_ALREADY
    return flow.signed_in_by or SESSION_PROVIDER
