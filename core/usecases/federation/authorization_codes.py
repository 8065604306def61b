"""Issues authorization codes with a consent, redeems them, and sends the other responses to an authorization request."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest, NotFound, Unavailable
from core.domain.federation.oauth.authorization_codes import (
    LOGGED_ALREADY,
    ApprovedAuthorization,
    Claim,
    EarlierUse,
    Issue,
    NewCode,
    Opening,
    Redeemed,
    SecondUse,
    Untargeted,
    claim_of,
    code_challenge,
    code_reused,
    second_use,
)
from core.domain.federation.oauth.authorization_steps import (
    RequestingApplication,
    SignedInPerson,
    approved_authorization,
)
from core.domain.federation.oauth.authorizations import (
    VERIFIER_NEEDED,
    Answered,
    AuthorizationRefused,
    AuthorizationRequest,
    Recipient,
    request_used,
)
from core.domain.federation.oauth.clients import AuthenticatedClient, AuthenticationMethod, ClientCredentials, RegisteredClient
from core.domain.federation.oauth.consents import Consent, UnplacedClient
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, Granted, TokenRequest
from core.domain.federation.oauth.refusals import InvalidGrant, InvalidTarget, UnauthorizedClient
from core.domain.federation.oauth.resources import OFFLINE_ACCESS
from core.domain.federation.signal_grants import OfferedSignals
from core.domain.identifiers import AuthorizationCodeId, ConsentId, EventId, LoginEventId, ServiceId, SessionId, UserId
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow
from core.domain.identity.login_events import login_event
from core.domain.identity.refresh_tokens import with_empty_part
from core.domain.identity.sessions import Context, OpenedSession
from core.domain.identity.sign_in import SESSION_PROVIDER
from core.domain.record.events import SYSTEM, Actor
from core.domain.secrets import Token
from core.domain.services.services import ServiceType
from core.domain.tokens import TokenAlgorithm, TokenAudience
from core.frozen import Frozen, replace
from core.usecases.federation.clients import Clients
from core.usecases.federation.consents import UnplacedClients, give_consent
from core.usecases.identity.flows import complete_once
from core.usecases.identity.sessions import Sessions
from ports.federation.oauth import CodeRedemption, Redemption
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# Of two requests with the same code, the second waits for the first, and finds the code redeemed at the second look.
_LOOKS: Final = 3
_Look = Callable[[Opening, datetime], Awaitable[tuple[AuthenticatedClient, Redemption]]]


class CodeNotIssued(Exception):
    """The account, the consent or the service ended before the code was issued."""


class AuthorizationCodes(Frozen):
    unit_of_work: UnitOfWorkFactory
    redemption: CodeRedemption
    clients: Clients
    sessions: Sessions
    system: System

    async def issue(self, uow: UnitOfWork, approved: ApprovedAuthorization, registered: Sequence[str], *, by_trust: bool = False) -> Token:
        """Runs within the caller's unit of work, which locks the account. Raises `CodeNotIssued` when the account or the service has ended,
        or when the service's redirect URIs are no longer the `registered` ones. A code also needs the person's consent, or with `by_trust`
        the person's own membership of an organization that trusts the service. Raises `UnknownRecipient` when the pushed request has got
        its code already.
        """
        code = self.system.secrets.token()
        new = NewCode(
            id=AuthorizationCodeId(self.system.ids.new()), digest=code.digest(), approved=approved, created_at=self.system.clock.now()
        )
        match await uow.authorization_codes.add(new, registered, by_trust=by_trust):
            case Issue.REFUSED:
                raise CodeNotIssued
            case Issue.USED:
                raise request_used()
        return code

    async def redeem(self, request: TokenRequest, client: AuthenticatedClient, sender: Client, *, root: str = OFFLINE_ACCESS) -> Granted:
        """Redeems a code. A code works only once. The application's session ends with the browser's session, unless the person has
        permitted the application to stay signed in, by the scope `root`. Raises `BadRequest` when the request lacks a parameter,
        `InvalidGrant`, and `InvalidTarget`, which leaves the code as it is.
        """
        if client.registered.holds_fapi2 and request.code_verifier is None:
            raise InvalidGrant(VERIFIER_NEEDED)
        claim = claim_of(request, client.registered.client, is_public=client.is_public)

        async def look(opening: Opening, at: datetime) -> tuple[AuthenticatedClient, Redemption]:
            return client, await self.redemption.redeem(claim, client.registered, opening, at)

        # An application that keeps a secret sends this request from its own servers, whose IP address says nothing about the person.
        actor = sender.actor() if client.is_public else SYSTEM
        granted, _ = await self._redeemed(claim, look, sender, actor, is_public=client.is_public, root=root)
        return granted

    async def redeem_for_browser(
        self, request: TokenRequest, client: AuthenticatedClient, sender: Client, kept: Callable[[Token], bytes]
    ) -> Granted:
        """As `redeem`, for an application behind a proxy, whose browser sends this request itself. The session's token is a cookie: `kept`
        makes the digest by which it is known, so that it is no refresh token.
        """
        claim = claim_of(request, client.registered.client, is_public=False)

        async def look(opening: Opening, at: datetime) -> tuple[AuthenticatedClient, Redemption]:
            return client, await self.redemption.redeem(claim, client.registered, opening, at)

        granted, _ = await self._redeemed(claim, look, sender, sender.actor(), kept)
        return granted

    async def redeem_with_secret(
        self, request: TokenRequest, shown: ClientCredentials, sender: Client
    ) -> tuple[Granted, AuthenticatedClient]:
        """Redeems a code for a client that shows a secret. One statement looks up the client and redeems the code, which saves a round
        trip. Raises the errors of `redeem`, and `Unauthorized`, `OrganizationNotActive`.
        """
        secret_digest = None if shown.secret is None else shown.secret.digest()
        try:
            claim = claim_of(request, shown.client, is_public=False)
        except BadRequest:
            # Only an authenticated client learns which parameter its request lacks.
            await self.clients.authenticate(shown)
            raise

        async def look(opening: Opening, at: datetime) -> tuple[AuthenticatedClient, Redemption]:
            met = await self.redemption.redeem_with_secret(claim, shown.client, secret_digest, opening, at)
            registered, found = (None, None) if met is None else met
            # The statement has checked the same conditions, so it has redeemed nothing for a client that is refused here.
            authenticated = await self.clients.confirm(registered, shown)
            authenticated.registered.require_bound(claim.key)
            if authenticated.registered.service_type is ServiceType.PROXY:
                # The browser of the person redeems its codes, by `redeem_for_browser`.
                raise UnauthorizedClient
            return authenticated, found

        return await self._redeemed(claim, look, sender, SYSTEM)

    async def _redeemed(
        self,
        claim: Claim,
        look: _Look,
        sender: Client,
        actor: Actor,
        kept: Callable[[Token], bytes] = Token.digest,
        *,
        is_public: bool = False,
        root: str = OFFLINE_ACCESS,
    ) -> tuple[Granted, AuthenticatedClient]:
        token = self.system.secrets.token()
        refresh_token = with_empty_part(token) if is_public else token
        opening = Opening(
            session=SessionId(self.system.ids.new()),
            refresh_digest=kept(refresh_token),
            login=login_event(LoginEventId(self.system.ids.new()), actor, self.system.clock.now(), user=None, provider=""),
            event=EventId(self.system.ids.new()),
            lifetime=self.sessions.lifetime,
            idle=self.sessions.idle,
            root=root,
        )
        for _ in range(_LOOKS):
            client, found = await look(opening, self.system.clock.now())
            match found:
                case Redeemed():
                    application = client.registered.application(found.session.scopes or ())
                    opened = OpenedSession(
                        found.session,
                        found.email,
                        found.is_platform_owner,
                        refresh_token,
                        found.subscription,
                        application,
                        tells_more=found.tells_more,
                        audience=found.audience,
                    )
                    return Granted(opened, found.email_is_verified, found.role, found.nonce, found.profile), client
                case EarlierUse():
                    await self._end_after(claim, client, found, sender)
                    raise InvalidGrant(detail="the code was redeemed before")
                case Untargeted():
                    raise InvalidTarget(found.audiences.missing(claim.resource))
                case None:
                    raise InvalidGrant(detail="no such code is open to this client")
                case _:  # contended: look again
                    continue
        raise Unavailable(retry_after=1, detail="a code stayed contended")

    async def _end_after(self, claim: Claim, client: AuthenticatedClient, earlier: EarlierUse, sender: Client) -> None:
        if second_use(claim, client.registered.service, earlier, self.system.clock.now()) is not SecondUse.STOLEN:
            return
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(earlier.user)
            # When several requests repeat the code, only one of these requests finds a session to end, and reports the reuse.
            if await uow.sessions.revoke(earlier.session, earlier.user):
                await uow.record(code_reused(earlier, sender.actor(), client.registered.client if client.registered.is_agent else None))
                await uow.commit()


class Allowance(Frozen):
    """The grant to an application, and the consent that a person has just given, with the person."""

    audiences: Sequence[TokenAudience]
    consent: Consent | None = None
    actor: Actor | None = None
    by_trust: bool = False
    signals: OfferedSignals | None = None
    """What the person grants of signals, as the page has shown it."""


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
        approved = approved_authorization(
            request,
            application,
            signed_in,
            provider=_provider(flow, signed_in, is_agent=application.is_agent),
            audiences=allowed.audiences,
            # The same form again gets another code: the browser has dropped the first.
            pushed=None if flow is not None and flow.repeats else request.pushed,
        )
        new = await self._newly_allowed(application, allowed)
        async with self.unit_of_work() as uow:
            # The account is locked before the flow, in the same order as in transactions that end both.
            await self._hold(uow, new, signed_in.user)
            if flow is not None:
                await complete_once(uow, flow, self.system.clock.now())
            await self._require_shown(uow, application, allowed)
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

    @staticmethod
    async def _require_shown(uow: UnitOfWork, application: RequestingApplication, allowed: Allowance) -> None:
        """An owner may have named other hosts since the page was compared. Raises `CodeNotIssued`, and the person is asked again."""
        if allowed.signals is None:
            return
        settings = await uow.signals.hold_settings(application.service)
        if settings is None or OfferedSignals(settings).digest != allowed.signals.digest:
            raise CodeNotIssued

    async def _give(self, uow: UnitOfWork, new: UnplacedClient | None, allowed: Allowance) -> ServiceId | None:
        """The service that the consent is for, which the consent makes if the client is new. Raises `NotFound`, `ClientRefused`."""
        if allowed.consent is None or allowed.actor is None:
            return None
        consent = allowed.consent
        if new is not None:
            consent = replace(consent, service=await self.unplaced.place(uow, new, allowed.actor))
        if not await give_consent(uow, ConsentId(self.system.ids.new()), consent, allowed.actor):
            raise NotFound("This application no longer exists", words="application_unknown")
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
        session_lifetime=application.session_lifetime,
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
