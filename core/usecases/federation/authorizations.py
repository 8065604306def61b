"""Authorization requests, sent with a user or pushed first (RFC 9126), which lead to a code or to a step that is missing."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from core.domain.federation.oauth.authorization_parameters import (
    PUSHED,
    DirectRequest,
    Parameters,
    client_of,
    has_chosen,
    pushed,
    recipient,
)
from core.domain.federation.oauth.authorization_parameters import checked_direct_request as checked_directly
from core.domain.federation.oauth.authorization_steps import (
    AuthorizationStep,
    Progress,
    RequestingApplication,
    SignedInPerson,
    door_of,
    has_consented,
    must_choose,
    named_account,
    next_step,
    relies_on_consent,
    require_open,
    require_redeemable,
    step_after,
    unasked_in_hiding,
)
from core.domain.federation.oauth.authorizations import (
    Answered,
    AuthorizationErrorCode,
    AuthorizationPrompt,
    AuthorizationRefused,
    AuthorizationRequest,
    Recipient,
    ResponseMode,
    UnknownRecipient,
    require_pushed,
    stored,
    unregistered,
)
from core.domain.federation.oauth.consents import (
    NO_CHOICE,
    ArrivedClient,
    Consent,
    ConsentChoice,
    ResourceAnswer,
    agent_answer,
    answer,
    bounded,
    grant_end,
)
from core.domain.federation.oauth.oidc import told_by
from core.domain.federation.oauth.resources import NO_DEMAND, SCOPES, OfferedResource, SignInDemand, demanding, strongest
from core.domain.federation.signal_grants import OfferedSignals, granted_of
from core.domain.identifiers import AgentGrantId, ClientId, PushedRequestId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow
from core.domain.identity.guards.hook_verdicts import AskingDoor, FlowAskedEnough, HooksBusy
from core.domain.key_proofs import KeyThumbprint
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.services.clients import describes_itself
from core.frozen import Frozen, replace
from core.usecases.federation.authorization_codes import Allowance, AuthorizationAnswers, CodeNotIssued
from core.usecases.federation.authorization_requests import AskedAuthorizations, kept
from core.usecases.federation.client_documents import ClientDocuments
from ports.federation.oauth import AuthorizationEncounter, PushedRequestStore
from ports.identity.sign_in import SignInHooks
from ports.system import System


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
    signals: OfferedSignals | None = None
    """What the person may grant of the signals that the request asks for."""


# A key in a flow's request: the person who has allowed the request before the sign-in that its scopes ask for.
AGREED: Final = "agreed"
# Beside it: what the page had shown of signals, as a digest.
AGREED_SIGNALS: Final = "agreed_signals"
Outcome = FinishedAuthorization | UnfinishedAuthorization


class Authorizations(Frozen):
    asked: AskedAuthorizations
    documents: ClientDocuments
    answers: AuthorizationAnswers
    hooks: SignInHooks
    system: System

    async def arrive(self, parameters: Parameters, caller: Caller | None, others: Sequence[Caller] = ()) -> Outcome:
        """Takes a request that a browser brings. A request that gets its code at once takes three round trips: one for all look-ups, one
        for the code, and one for the commit. A request that names an API takes one more, and one of a metadata client some. `others` are
        the accounts that are signed in in the browser beside the caller's. Raises `UnknownRecipient` and `OrganizationNotActive`, which
        the person sees.
        """
        client, secret = client_of(parameters), pushed(parameters)
        if secret is not None:
            request, met = await self.asked.pushed(client, Token(secret).digest(), caller)
            return await self._of_one_account(request, met, caller, others)
        if describes_itself(client):
            arrived = await self.documents.arrived(client, parameters.resources)
            client, met = arrived.id, await self.asked.met(arrived, caller)
        else:
            met = await self.asked.found(client, caller)
        try:
            answers_to = recipient(parameters, met.application.registered)
        except UnknownRecipient as refusal:
            refusal.client, refusal.api = client, met.application.asked_api
            raise
        try:
            request = await self.asked.checked(parameters, met.application, answers_to)
        except AuthorizationRefused as refusal:
            return FinishedAuthorization(self.answers.refused(answers_to, refusal), met.application)
        return await self._of_one_account(request, met, caller, others)

    async def _of_one_account(
        self, request: AuthorizationRequest, met: AuthorizationEncounter, caller: Caller | None, others: Sequence[Caller]
    ) -> Outcome:
        """Answers for the account in use. A request that forbids questions (`prompt=none`) and names another account of this browser gets
        the answer of that account, if its person has allowed the application. If not, the application must not learn from the answer who
        else is signed in here, so the answer is the one that a name of nobody here gets.
        """
        named = named_account(request, others) if AuthorizationPrompt.NONE in request.prompts else None
        if named is not None:
            of_named = await self.asked.met_again(request, named)
            granting = await self._granting(request, of_named)
            if of_named.signed_in is not None and has_consented(granting, of_named.application, of_named.signed_in):
                return await self._settled(request, of_named, Progress(), caller=named)
        asks = must_choose(request, caller, others)
        return await self._settled(request, met, Progress(must_choose=asks), caller=caller)

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
        request = kept(flow)
        met = await self.asked.met_again(request, caller)
        progress = Progress(
            flow.created_at,
            # The page that asks about the membership shows the account, and comes before the page that asks for a second factor.
            account_chosen=account_chosen or flow.asked_memberships,
            set_up_later=set_up_later,
            asked_membership=flow.asked_memberships or set_up_later,
            cannot_prove=cannot_prove,
        )
        if met.signed_in is not None and flow.request.get(AGREED) == str(met.signed_in.user):
            shown = flow.request.get(AGREED_SIGNALS)
            signals = bytes.fromhex(str(shown)) if shown is not None else None
            progress = replace(progress, account_chosen=True, consented=True, signals=signals)
        return await self._settled(request, met, progress, flow, caller=caller, sender=sender)

    async def allow(self, flow: Flow, caller: Caller, actor: Actor, sender: Client, choice: ConsentChoice = NO_CHOICE) -> Outcome:
        """The person allows the request, with the account that the page has shown. If the document of a metadata client has changed since
        the page showed it, the person is asked again. Raises the errors of `resume`, and `BadRequest` for an end of an agent's grant that
        the page does not offer.
        """
        request = kept(flow)
        met = await self.asked.met_again(request, caller)
        by = None if flow.repeats else actor
        progress = replace(_allowed(flow), signals=choice.signals)
        return await self._settled(request, met, progress, flow, by, caller=caller, sender=sender, choice=choice)

    async def rehearse(self, client: ClientId, caller: Caller, began: datetime) -> AuthorizationStep:
        """The step that would come next if the application had sent this person here, and the person had signed in for it since `began`.
        Nothing is issued and nothing is stored. Raises `AuthorizationRefused`, `OrganizationNotActive`, and `UnknownRecipient` for an
        application without a redirect URI.
        """
        met = await self.asked.found(client, caller)
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
        met = await self.asked.named(organization, service)
        request = checked_directly(asked, met.application.registered)
        require_open(request, met.application)
        require_redeemable(request, met.application.registered)
        require_pushed(request, met.application.registered)
        return request, met.application

    async def finish_directly(self, flow: Flow, caller: Caller, sender: Client) -> Outcome:
        """Finishes a request that the application led straight to a provider. The person's choice of an account at this provider, in this
        flow, counts as consent. A person who signed in another way, also through another provider, is asked for consent. Raises the errors
        of `resume`.
        """
        request = kept(flow)
        met = await self.asked.met_again(request, caller)
        if met.signed_in is None or met.signed_in.session != flow.session or not has_chosen(flow.request, flow.signed_in_at_provider):
            progress = Progress(flow.created_at, account_chosen=flow.asked_memberships, asked_membership=flow.asked_memberships)
            return await self._settled(request, met, progress, flow, caller=caller, sender=sender)
        actor = None if flow.repeats else sender.actor(caller.user)
        progress = replace(_allowed(flow), asked_membership=flow.asked_memberships)
        return await self._settled(request, met, progress, flow, actor, caller=caller, sender=sender)

    async def deny(self, flow: Flow) -> Answered:
        """The person refuses the request, or may not allow it. Raises `FlowOver`, and `UnknownRecipient`, which the person sees."""
        request = kept(flow, refusing=True)
        await self.asked.met_again(request, None, look=False)
        await self.answers.complete(flow, refused=True)
        return self.answers.refused(request.recipient, AuthorizationRefused(AuthorizationErrorCode.ACCESS_DENIED, "The person has refused"))

    async def _granting(self, request: AuthorizationRequest, met: AuthorizationEncounter) -> AuthorizationRequest:
        """The request, as far as its person may grant it."""
        offered = await self.asked.offered_signals(request, met.application, met.signed_in)
        return granted_of(request, offered)

    async def _settled(
        self,
        asked: AuthorizationRequest,
        met: AuthorizationEncounter,
        progress: Progress,
        flow: Flow | None = None,
        actor: Actor | None = None,
        *,
        caller: Caller | None,
        sender: Client | None = None,
        choice: ConsentChoice = NO_CHOICE,
    ) -> Outcome:
        application, signed_in, request = met.application, met.signed_in, asked
        try:
            require_open(request, application)
            asked = request = bounded(request, is_agent=application.is_agent, agents_allowed=application.agents_allowed)
            require_redeemable(request, application.registered)
            require_pushed(request, application.registered)
            resources = await self.asked.named_resources(request, application, signed_in)
            if signed_in is not None and any(one.asks_again(request.foreign_scopes) for one in resources):
                signed_in = replace(signed_in, owes_answer=True)
            signals = await self.asked.offered_signals(request, application, signed_in)
            request = granted_of(request, signals)
            is_stale = signals is not None and progress.consented and progress.signals != signals.digest
            if is_stale or (actor is not None and not _was_shown(application, resources, choice)):
                actor, progress = None, replace(progress, consented=False)
            now = self.system.clock.now()
            step = next_step(request, application, signed_in, progress, now)
            if step is not AuthorizationStep.DONE or signed_in is None:
                return UnfinishedAuthorization(step, asked, application, signed_in, resources, signals=signals)
            allowed = self._allowance(request, application, signed_in, resources, progress, actor=actor, choice=choice)
            allowed = replace(allowed, signals=signals)
            # What is granted is known only now: a scope that the person takes the tick from asks for no proof.
            demand = strongest(map(OfferedResource.demand, resources, allowed.audiences))
            if demand.asks:
                step = next_step(demanding(request, demand), application, signed_in, progress, now)
            scopes, consents = request.granted_scopes, allowed.consent is not None
            hidden = AuthorizationPrompt.NONE in request.prompts
            door = door_of(application, signed_in, told_by(scopes), scopes, flow=flow, sender=sender, consents=consents, is_hidden=hidden)
            step = await self._after_hooks(step, door, request, signed_in, progress, flow=flow)
            if step is not AuthorizationStep.DONE:
                await self.answers.keep(application, allowed)
                agreed = progress.consented
                return UnfinishedAuthorization(
                    step, asked, application, signed_in, resources, demand=demand, agreed=agreed, signals=signals
                )
            if request.recipient.response_mode is ResponseMode.FRAGMENT and sender is not None:
                answered = await self.answers.with_tokens(request, application, signed_in, flow, allowed, sender=sender)
            else:
                answered = await self.answers.approved(request, application, signed_in, flow, allowed)
            return FinishedAuthorization(answered, application)
        except CodeNotIssued:
            # The person is asked for the missing step. If no step is missing, the account has ended.
            met = await self.asked.met_again(request, caller)
            return await self._settled(asked, met, replace(progress, consented=False), flow, caller=None, sender=sender)
        except AuthorizationRefused as refusal:
            if flow is not None:
                await self.answers.complete(flow)
            return FinishedAuthorization(self.answers.refused(request.recipient, refusal), application)

    async def _after_hooks(
        self,
        step: AuthorizationStep,
        door: AskingDoor,
        request: AuthorizationRequest,
        signed_in: SignedInPerson,
        progress: Progress,
        *,
        flow: Flow | None,
    ) -> AuthorizationStep:
        """Hooks come last of all: they hear of nobody who has still something to do. A flow that has asked enough ends."""
        if step is not AuthorizationStep.DONE or not signed_in.has_hooks:
            return step
        try:
            heard = await self.hooks.ask(door)
        except (HooksBusy, FlowAskedEnough) as refusal:
            if door.is_hidden:
                raise unasked_in_hiding(refusal) from None
            if flow is not None and isinstance(refusal, FlowAskedEnough):
                await self.answers.complete(flow, refused=True)
            raise
        return step_after(heard, request, signed_in, progress)

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
    ) -> Allowance:
        """With an actor, the person has just allowed the request. Without, an earlier consent counts, or the organization's trust."""
        by_trust = not progress.consented and not relies_on_consent(application, signed_in)
        asked = request.foreign_scopes
        audiences = [one.granted(asked, None if actor is None else choice.ticked, by_trust=by_trust) for one in resources]
        if actor is None:
            return Allowance(audiences, by_trust=by_trust)
        answers = self._resource_answers(request, application, resources, choice)
        consent = Consent(signed_in.user, application.service, request.granted_scopes, self.system.clock.now(), resources=answers)
        agent = application.registered.client_id if application.is_agent else None
        return Allowance(audiences, consent, replace(actor, agent=agent))

    def _resource_answers(
        self, request: AuthorizationRequest, application: RequestingApplication, resources: Sequence[OfferedResource], choice: ConsentChoice
    ) -> Sequence[ResourceAnswer]:
        asked, ticked = request.foreign_scopes, choice.ticked
        if not application.is_agent:
            return [answer(one, asked, one.granted(asked, ticked).scopes) for one in resources]
        end = grant_end(choice.days, self.system.clock.now())
        return [agent_answer(one, asked, ticked, AgentGrantId(self.system.ids.new()), end) for one in resources]


def _allowed(flow: Flow) -> Progress:
    return Progress(flow.created_at, account_chosen=True, consented=True, set_up_later=True, asked_membership=True)


def _was_shown(application: RequestingApplication, resources: Sequence[OfferedResource], choice: ConsentChoice) -> bool:
    """Whether the page that the person has answered said what a metadata client says now. The first consent is about its name, too."""
    return all(one.document == choice.document for one in resources) and (application.unplaced is None or application.name == choice.name)


PUSHED_REQUEST_LIFETIME: Final = timedelta(seconds=60)


class PushedRequest(Frozen):
    """`uri` is good for any number of visits, and for one code."""

    uri: str
    lifetime: timedelta


class PushedRequests(Frozen):
    asked: AskedAuthorizations
    store: PushedRequestStore
    system: System

    async def push(
        self, parameters: Parameters, client: ClientId, arrived: ArrivedClient | None = None, key: KeyThumbprint | None = None
    ) -> PushedRequest:
        """`client` has authenticated, unless it is a public client. A metadata client has `arrived`. The code of a request with a proof is
        bound to its `key` (RFC 9449 section 10.1). Raises `AuthorizationRefused` and `UnknownRecipient`.
        """
        if "request_uri" in parameters:
            raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, "request_uri: a pushed request cannot name another one")
        application = (await self.asked.met(arrived or ArrivedClient(client), None)).application
        request = await self.asked.checked(parameters, application, recipient(parameters, application.registered))
        if key is not None:
            if request.key not in {None, key}:
                raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, "dpop_jkt: is not the key of the proof in DPoP")
            request = replace(request, key=key)
        await self.asked.named_resources(request, application, None)
        secret = self.system.secrets.token()
        expires_at = self.system.clock.now() + PUSHED_REQUEST_LIFETIME
        await self.store.add(PushedRequestId(self.system.ids.new()), secret.digest(), application.kept_service, stored(request), expires_at)
        return PushedRequest(f"{PUSHED}{secret.reveal()}", PUSHED_REQUEST_LIFETIME)
