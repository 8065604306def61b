"""Authorization requests: an application sends a person here, and gets a code, or the person has to do something first."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from core.domain.audiences import TokenAudience
from core.domain.errors import NotFound
from core.domain.federation.oauth.agents import bounded, grant_end
from core.domain.federation.oauth.authorization_codes import SESSION_PROVIDER, ApprovedAuthorization, code_challenge
from core.domain.federation.oauth.authorization_parameters import (
    NOT_OUR_HINT,
    Parameters,
    checked,
    client_of,
    id_token_hint,
    pushed,
    recipient,
)
from core.domain.federation.oauth.authorization_steps import (
    AuthorizationStep,
    Progress,
    RequestingApplication,
    SignedInPerson,
    next_step,
    relies_on_consent,
    require_open,
    require_redeemable,
)
from core.domain.federation.oauth.authorizations import (
    AuthorizationErrorCode,
    AuthorizationRefused,
    AuthorizationRequest,
    Registered,
    UnknownRecipient,
    request_used,
    restored,
    unknown_application,
    unregistered,
)
from core.domain.federation.oauth.clients import AuthenticatedClient, AuthenticationMethod, RegisteredClient
from core.domain.federation.oauth.consents import NO_CHOICE, Consent, ConsentChoice, ResourceAnswer, agent_answer, answer
from core.domain.federation.oauth.demands import NO_DEMAND, SignInDemand, demanding, strongest
from core.domain.federation.oauth.direct_requests import DirectRequest, has_chosen
from core.domain.federation.oauth.direct_requests import checked as checked_directly
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, TokenRequest
from core.domain.federation.oauth.redirects import Answered, Recipient, ResponseMode, is_registered
from core.domain.federation.oauth.resources import OfferedResource, named_resources
from core.domain.federation.oauth.scopes import SCOPES
from core.domain.federation.oauth.unplaced_clients import ArrivedClient, UnplacedClient, described
from core.domain.identifiers import AgentGrantId, ClientId, ConsentId, ServiceId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowPurpose
from core.domain.identity.sessions import Context
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.services.client_ids import is_address, shown
from core.domain.services.services import ServiceType
from core.domain.signing_keys import TokenAlgorithm
from core.frozen import Frozen, replace
from core.usecases.federation.authorization_codes import AuthorizationCodes, CodeNotIssued
from core.usecases.federation.client_documents import ClientDocuments
from core.usecases.federation.consents import give_consent
from core.usecases.federation.id_token_hints import read_hint
from core.usecases.federation.unplaced_clients import UnplacedClients
from core.usecases.identity.flows import complete_once
from core.usecases.identity.sessions import Sessions
from ports.federation.authorizations import AuthorizationEncounter, Encounters
from ports.federation.resources import ResourceLookup
from ports.system import System
from ports.tokens import TokenVerifier
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class FinishedAuthorization(Frozen):
    """The answer for the application: a code, or an error."""

    answered: Answered
    application: RequestingApplication


class UnfinishedAuthorization(Frozen):
    """The person has to do something first."""

    step: AuthorizationStep
    request: AuthorizationRequest
    application: RequestingApplication
    signed_in: SignedInPerson | None
    resources: Sequence[OfferedResource] = ()
    """The APIs that the request names."""
    demand: SignInDemand = NO_DEMAND
    """What the scopes ask of the sign-in that the person has just allowed, or has allowed before."""
    agreed: bool = False
    """The person has allowed the request on the way here. `AGREED` tells the flow that leads to the sign-in."""


# A key in a flow's request: the person who has allowed the request before the sign-in that its scopes ask for.
AGREED: Final = "agreed"
Outcome = FinishedAuthorization | UnfinishedAuthorization


class _Allowance(Frozen):
    """What an application is granted, and the consent that was given a moment ago, with who gave it."""

    audiences: Sequence[TokenAudience]
    consent: Consent | None = None
    actor: Actor | None = None
    by_trust: bool = False


class Authorizations(Frozen):
    unit_of_work: UnitOfWorkFactory
    encounters: Encounters
    resources: ResourceLookup
    documents: ClientDocuments
    unplaced: UnplacedClients
    verifier: TokenVerifier
    codes: AuthorizationCodes
    sessions: Sessions
    issuer: str
    system: System

    async def arrive(self, parameters: Parameters, caller: Caller | None) -> Outcome:
        """Takes a request that a browser brings. A request that gets its code at once takes three round trips: one for all look-ups, one
        for the code, and one for the commit. A request that names an API takes one more, and one of a metadata client some. Raises
        `UnknownRecipient` and `OrganizationNotActive`, which the person sees.
        """
        client, secret = client_of(parameters), pushed(parameters)
        if secret is not None:
            request, met = await self._pushed(client, Token(secret).digest(), caller)
            return await self._settled(request, met, Progress(), caller=caller)
        if is_address(client):
            arrived = await self.documents.arrived(client, parameters.resources)
            client, met = arrived.id, await self.met(arrived, caller)
        else:
            met = _found(await self.encounters.find(client, caller))
        try:
            answers_to = recipient(parameters, met.application.registered)
        except UnknownRecipient as refusal:
            refusal.client, refusal.api = client, met.application.asked_api
            raise
        try:
            request = await self.checked(parameters, met.application, answers_to)
        except AuthorizationRefused as refusal:
            return FinishedAuthorization(self._refused(answers_to, refusal), met.application)
        return await self._settled(request, met, Progress(), caller=caller)

    async def resume(
        self,
        flow: Flow,
        caller: Caller | None,
        sender: Client,
        *,
        account_chosen: bool = False,
        set_up_later: bool = False,
        cannot_prove: bool = False,
    ) -> Outcome:
        """Resumes a request after the person has signed in, chosen this account, or postponed the second factor. An answer to the
        application ends the flow. Raises the errors of `arrive`, and `FlowOver`.
        """
        request = _kept(flow)
        met = await self._met_again(request, caller)
        progress = Progress(
            flow.created_at,
            # The page that asks about the membership shows the account, and comes before the page that asks for a second factor.
            account_chosen=account_chosen or flow.asked_memberships,
            set_up_later=set_up_later,
            asked_membership=flow.asked_memberships or set_up_later,
            cannot_prove=cannot_prove,
        )
        if met.signed_in is not None and flow.request.get(AGREED) == str(met.signed_in.user):
            progress = replace(progress, account_chosen=True, consented=True)
        return await self._settled(request, met, progress, flow, caller=caller, sender=sender)

    async def allow(self, flow: Flow, caller: Caller, actor: Actor, sender: Client, choice: ConsentChoice = NO_CHOICE) -> Outcome:
        """The person allows the request, with the account that the page has shown. If the document of a metadata client has changed since
        the page showed it, the person is asked again. Raises the errors of `resume`, and `BadRequest` for an end of an agent's grant that
        the page does not offer.
        """
        request = _kept(flow)
        met = await self._met_again(request, caller)
        by = None if flow.repeats else actor
        return await self._settled(request, met, _allowed(flow), flow, by, caller=caller, sender=sender, choice=choice)

    async def rehearse(self, client: ClientId, caller: Caller, began: datetime) -> AuthorizationStep:
        """The step that would come next if the application had sent this person here, and the person had signed in for it since `began`.
        Nothing is issued and nothing is stored. Raises `AuthorizationRefused`, `OrganizationNotActive`, and `UnknownRecipient` for an
        application without a redirect URI.
        """
        met = _found(await self.encounters.find(client, caller))
        registered = met.application.registered
        if not registered.redirect_uris:
            raise unregistered()
        request = AuthorizationRequest(client_id=client, recipient=Recipient(registered.redirect_uris[0]), scopes=SCOPES)
        require_open(request, met.application)
        require_redeemable(request, registered)
        return next_step(request, met.application, met.signed_in, Progress(began, account_chosen=True), self.system.clock.now())

    async def direct(self, organization: str, service: str, asked: DirectRequest) -> tuple[AuthorizationRequest, RequestingApplication]:
        """Checks a request of an application whose own page leads straight to a provider. Raises `NotFound`, `OrganizationNotActive`,
        `UnknownRecipient`, `AuthorizationRefused` and `BadRequest`, which the person sees.
        """
        met = await self.encounters.find_named(organization, service)
        # A metadata client has no page of its own here, and its document is not looked at.
        if met is None or is_address(met.application.registered.client_id):
            raise NotFound("There is no such service", words="service_unknown")
        request = checked_directly(asked, met.application.registered)
        require_open(request, met.application)
        require_redeemable(request, met.application.registered)
        return request, met.application

    async def finish_directly(self, flow: Flow, caller: Caller, sender: Client) -> Outcome:
        """Finishes a request that the application led straight to a provider. The person's choice of an account at this provider, in this
        flow, counts as consent. A person who signed in another way, also through another provider, is asked for consent. Raises the errors
        of `resume`.
        """
        request = _kept(flow)
        met = await self._met_again(request, caller)
        if met.signed_in is None or met.signed_in.session != flow.session or not has_chosen(flow.request, flow.signed_in_at_provider):
            progress = Progress(flow.created_at, account_chosen=flow.asked_memberships, asked_membership=flow.asked_memberships)
            return await self._settled(request, met, progress, flow, caller=caller, sender=sender)
        actor = None if flow.repeats else sender.actor(caller.user)
        progress = replace(_allowed(flow), asked_membership=flow.asked_memberships)
        return await self._settled(request, met, progress, flow, actor, caller=caller, sender=sender)

    async def deny(self, flow: Flow) -> Answered:
        """The person refuses the request, or may not allow it. Raises `FlowOver`, and `UnknownRecipient`, which the person sees."""
        request = _kept(flow, refusing=True)
        await self._met_again(request, None, look=False)
        await self._complete(flow, refused=True)
        return self._refused(request.recipient, AuthorizationRefused(AuthorizationErrorCode.ACCESS_DENIED, "The person has refused"))

    async def named_resources(
        self, request: AuthorizationRequest, application: RequestingApplication, signed_in: SignedInPerson | None
    ) -> Sequence[OfferedResource]:
        """The APIs that the request names. Only such a request costs a round trip. Raises `AuthorizationRefused`."""
        if not request.resources:
            return ()
        user = None if signed_in is None else signed_in.user
        if application.unplaced is not None:
            offered = await self.resources.find_for(application.unplaced, user)
        else:
            offered = await self.resources.find(application.service, request.resources, user)
        return named_resources(request.resources, request.foreign_scopes, offered)

    async def checked(self, parameters: Parameters, application: RequestingApplication, answers_to: Recipient) -> AuthorizationRequest:
        """Raises `AuthorizationRefused`."""
        request = checked(parameters, application.registered, answers_to)
        if application.unplaced is not None:
            request = replace(request, described=described(application.unplaced.kept))
        hint = id_token_hint(parameters)
        if hint is None:
            return request
        said = await read_hint(self.verifier, hint)
        if said is None or said.client != shown(request.client_id):
            raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, NOT_OUR_HINT)
        if request.subject not in {None, said.user}:
            raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, "id_token_hint: it is another person's than claims asks for")
        return replace(request, subject=said.user)

    async def met(self, arrived: ArrivedClient, caller: Caller | None) -> AuthorizationEncounter:
        """Raises `UnknownRecipient`."""
        if arrived.unplaced is not None:
            return _found(await self.encounters.find_unplaced(arrived.unplaced, caller))
        return _found(await self.encounters.find(arrived.id, caller))

    async def _pushed(self, client: ClientId, digest: bytes, caller: Caller | None) -> tuple[AuthorizationRequest, AuthorizationEncounter]:
        """A pushed request is good for any number of visits, and for one code. The service's redirect URIs may have changed since the
        service pushed the request. Raises `UnknownRecipient`.
        """
        if is_address(client):
            kept = await self.documents.pushed(client, digest)
            if kept is None:
                raise request_used()
            request = replace(restored(kept), pushed=digest)
            return request, await self._met_again(request, caller)
        met = _found(await self.encounters.find_pushed(client, digest, caller))
        if met.pushed is None:
            raise request_used()
        request = replace(restored(met.pushed), pushed=digest)
        _require_registered(request, met.application.registered)
        return request, met

    async def _met_again(self, request: AuthorizationRequest, caller: Caller | None, *, look: bool = True) -> AuthorizationEncounter:
        """Looks up the application and the person of a kept request again. The service's redirect URIs may have changed since, and so may
        the document of a metadata client. Raises `UnknownRecipient`.
        """
        if look and is_address(request.client_id):
            met = await self.met(await self.documents.arrived(shown(request.client_id), request.resources, request.described), caller)
        else:
            met = _found(await self.encounters.find(request.client_id, caller))
        _require_registered(request, met.application.registered)
        return met

    async def _settled(
        self,
        request: AuthorizationRequest,
        met: AuthorizationEncounter,
        progress: Progress,
        flow: Flow | None = None,
        actor: Actor | None = None,
        *,
        caller: Caller | None,
        sender: Client | None = None,
        choice: ConsentChoice = NO_CHOICE,
    ) -> Outcome:
        application, signed_in = met.application, met.signed_in
        try:
            require_open(request, application)
            request = bounded(request, is_agent=application.is_agent, agents_allowed=application.agents_allowed)
            require_redeemable(request, application.registered)
            resources = await self.named_resources(request, application, signed_in)
            if signed_in is not None and any(one.asks_again(request.foreign_scopes) for one in resources):
                signed_in = replace(signed_in, owes_answer=True)
            if actor is not None and not _was_shown(application, resources, choice):
                actor, progress = None, replace(progress, consented=False)
            now = self.system.clock.now()
            step = next_step(request, application, signed_in, progress, now)
            if step is not AuthorizationStep.DONE or signed_in is None:
                return UnfinishedAuthorization(step, request, application, signed_in, resources)
            allowed = self._allowance(request, application, signed_in, resources, progress, actor=actor, choice=choice)
            # What is granted is known only now: a scope that the person takes the tick from asks for no proof.
            demand = strongest(map(OfferedResource.demand, resources, allowed.audiences))
            if demand.asks:
                step = next_step(demanding(request, demand), application, signed_in, progress, now)
            if step is not AuthorizationStep.DONE:
                await self._keep(application, allowed)
                return UnfinishedAuthorization(step, request, application, signed_in, resources, demand=demand, agreed=progress.consented)
            if request.recipient.response_mode is ResponseMode.FRAGMENT and sender is not None:
                answered = await self._with_tokens(request, application, signed_in, flow, allowed, sender=sender)
            else:
                answered = await self._approved(request, application, signed_in, flow, allowed)
            return FinishedAuthorization(answered, application)
        except CodeNotIssued:
            # The person is asked for the missing step. If no step is missing, the account has ended.
            met = await self._met_again(request, caller)
            return await self._settled(request, met, replace(progress, consented=False), flow, caller=None, sender=sender)
        except AuthorizationRefused as refusal:
            if flow is not None:
                await self._complete(flow)
            return FinishedAuthorization(self._refused(request.recipient, refusal), application)

    def _allowance(
        self,
        request: AuthorizationRequest,
        application: RequestingApplication,
        signed_in: SignedInPerson,
        resources: Sequence[OfferedResource],
        progress: Progress,
        *,
        actor: Actor | None,
        choice: ConsentChoice,
    ) -> _Allowance:
        """With an actor, the person has just allowed the request. Without, an earlier consent counts, or the organization's trust."""
        by_trust = not progress.consented and not relies_on_consent(application, signed_in)
        asked = request.foreign_scopes
        audiences = [one.granted(asked, None if actor is None else choice.ticked, by_trust=by_trust) for one in resources]
        if actor is None:
            return _Allowance(audiences, by_trust=by_trust)
        answers = self._answers(request, application, resources, choice)
        consent = Consent(signed_in.user, application.service, request.scopes, self.system.clock.now(), resources=answers)
        agent = application.registered.client_id if application.is_agent else None
        return _Allowance(audiences, consent, replace(actor, agent=agent))

    async def _keep(self, application: RequestingApplication, allowed: _Allowance) -> None:
        """Keeps the consent of a person who has to sign in again before the application gets its code."""
        if allowed.consent is None:
            return
        new = await self._newly_allowed(application, allowed)
        async with self.unit_of_work() as uow:
            await self._hold(uow, new, allowed.consent.user)
            await self._give(uow, new, allowed)
            await uow.commit()

    async def _newly_allowed(self, application: RequestingApplication, allowed: _Allowance) -> UnplacedClient | None:
        """The client that the person has just allowed, if nobody has placed it yet. Raises `ClientRefused`."""
        if application.unplaced is None or allowed.consent is None:
            return None
        await self.unplaced.count(allowed.consent.user)
        return application.unplaced

    async def _hold(self, uow: UnitOfWork, new: UnplacedClient | None, user: UserId) -> None:
        if new is not None:
            await self.unplaced.hold(uow, new)
        await uow.accounts.hold_shared(user)

    async def _give(self, uow: UnitOfWork, new: UnplacedClient | None, allowed: _Allowance) -> ServiceId | None:
        """The service that the consent is for, which the consent makes if the client is new. Raises `NotFound`, `ClientRefused`."""
        if allowed.consent is None or allowed.actor is None:
            return None
        consent = allowed.consent
        if new is not None:
            consent = replace(consent, service=await self.unplaced.place(uow, new, allowed.actor))
        if not await give_consent(uow, ConsentId(self.system.ids.new()), consent, allowed.actor):
            raise NotFound("This application does not exist any more", words="application_unknown")
        return consent.service

    async def _approved(
        self,
        request: AuthorizationRequest,
        application: RequestingApplication,
        signed_in: SignedInPerson,
        flow: Flow | None,
        allowed: _Allowance,
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
            provider=_provider(flow, signed_in),
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
            service = await self._give(uow, new, allowed)
            approved = approved if service is None else replace(approved, service=service)
            code = await self.codes.issue(uow, approved, application.registered.redirect_uris, by_trust=allowed.by_trust)
            await uow.commit()
        return request.recipient.answered(self.issuer, {"code": code.reveal()})

    def _answers(
        self, request: AuthorizationRequest, application: RequestingApplication, resources: Sequence[OfferedResource], choice: ConsentChoice
    ) -> Sequence[ResourceAnswer]:
        asked, ticked = request.foreign_scopes, choice.ticked
        if not application.is_agent:
            return [answer(one, asked, one.granted(asked, ticked).scopes) for one in resources]
        end = grant_end(choice.days, self.system.clock.now())
        return [agent_answer(one, asked, ticked, AgentGrantId(self.system.ids.new()), end) for one in resources]

    async def _with_tokens(
        self,
        request: AuthorizationRequest,
        application: RequestingApplication,
        signed_in: SignedInPerson,
        flow: Flow | None,
        allowed: _Allowance,
        *,
        sender: Client,
    ) -> Answered:
        """Answers with tokens. An ordinary code is issued and redeemed here, by the same rules and with the same log entries."""
        verifier = self.system.secrets.token()
        answered = await self._approved(replace(request, code_challenge=code_challenge(verifier)), application, signed_in, flow, allowed)
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

    async def _complete(self, flow: Flow, *, refused: bool = False) -> None:
        if flow.repeats:
            return
        async with self.unit_of_work() as uow:
            await complete_once(uow, flow, self.system.clock.now(), refused=refused)
            await uow.commit()

    def _refused(self, answers_to: Recipient, refusal: AuthorizationRefused) -> Answered:
        return answers_to.answered(self.issuer, {"error": refusal.word.value, "error_description": refusal.message})


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


def _allowed(flow: Flow) -> Progress:
    return Progress(flow.created_at, account_chosen=True, consented=True, set_up_later=True, asked_membership=True)


def _provider(flow: Flow | None, signed_in: SignedInPerson) -> str:
    """The provider's name in the log of sign-ins: how the person signed in for this request, or the name for an existing session."""
    if flow is None or flow.session != signed_in.session:
        return SESSION_PROVIDER
    return flow.signed_in_by or SESSION_PROVIDER


def _found(met: AuthorizationEncounter | None) -> AuthorizationEncounter:
    if met is None:
        raise unknown_application()
    return met


def _was_shown(application: RequestingApplication, resources: Sequence[OfferedResource], choice: ConsentChoice) -> bool:
    """Whether the page that the person has answered said what a metadata client says now. The first consent is about its name, too."""
    return all(one.document == choice.document for one in resources) and (application.unplaced is None or application.name == choice.name)


def _require_registered(request: AuthorizationRequest, registered: Registered) -> None:
    if not is_registered(request.recipient.redirect_uri, registered.redirect_uris, native=registered.is_native):
        raise unregistered()


def _kept(flow: Flow, *, refusing: bool = False) -> AuthorizationRequest:
    """Raises `FlowOver`."""
    flow.require_unanswered(FlowPurpose.AUTHORIZE, refusing=refusing)
    kept: Mapping[str, Any] = flow.request
    return restored(kept)
