"""Authorization requests: from an application that sends somebody here to the code that it gets, or to what the person has to do first."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from core.domain.errors import NotFound
from core.domain.federation.authorization_codes import Approved
from core.domain.federation.authorization_parameters import NOT_OUR_HINT, Parameters, checked, client_of, id_token_hint, pushed, recipient
from core.domain.federation.authorization_steps import (
    Application,
    Progress,
    SignedIn,
    Step,
    next_step,
    relies_on_consent,
    require_open,
)
from core.domain.federation.authorizations import (
    AuthorizationRefused,
    AuthorizationRequest,
    UnknownRecipient,
    Word,
    restored,
    unknown_application,
    unregistered,
)
from core.domain.federation.consents import Consent, consent_given
from core.domain.federation.redirects import Answered, Recipient, is_registered
from core.domain.identifiers import ConsentId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.usecases.federation.authorization_codes import AuthorizationCodes
from core.usecases.federation.id_token_hints import read_hint
from ports.clock import Clock
from ports.federation.authorizations import Encounter, Encounters
from ports.federation.consents import ConsentTakenBack
from ports.ids import Ids
from ports.tokens import TokenVerifier
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


@dataclass(frozen=True, slots=True)
class Finished:
    """What the application gets: a code, or an error."""

    answered: Answered
    application: Application


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The person has to do something first."""

    step: Step
    request: AuthorizationRequest
    application: Application
    signed_in: SignedIn | None


Outcome = Finished | Unfinished


class Authorizations:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        encounters: Encounters,
        verifier: TokenVerifier,
        codes: AuthorizationCodes,
        *,
        issuer: str,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._encounters = encounters
        self._verifier = verifier
        self._codes = codes
        self._issuer = issuer
        self._clock = clock
        self._ids = ids

    async def arrive(self, parameters: Parameters, caller: Caller | None) -> Outcome:
        """A request as a browser brings it. Two round trips for one that gets its code at once: one for everything that it depends on, one
        for the code. Raises `UnknownRecipient` and `OrganizationNotActive`, which the person is told.
        """
        client, secret = client_of(parameters), pushed(parameters)
        if secret is not None:
            met = _found(await self._encounters.take_pushed(client, Token(secret).digest(), caller))
            request = _taken(met)
            return await self._settled(request, met, Progress())
        met = _found(await self._encounters.find(client, caller))
        answers_to = recipient(parameters, met.application.registered)
        try:
            request = await self.checked(parameters, met.application, answers_to)
        except AuthorizationRefused as refusal:
            return Finished(self._refused(answers_to, refusal), met.application)
        return await self._settled(request, met, Progress())

    async def resume(self, flow: Flow, caller: Caller | None, *, account_chosen: bool = False, set_up_later: bool = False) -> Outcome:
        """A request whose person has done something for it: signed in, chosen this account, or put off to set up a second factor. The flow
        ends with an answer. Raises what `arrive` does, and `FlowOver`.
        """
        request = _kept(flow)
        met = _found(await self._encounters.find(request.client_id, caller))
        return await self._settled(request, met, Progress(flow.created_at, account_chosen=account_chosen, set_up_later=set_up_later), flow)

    async def allow(self, flow: Flow, caller: Caller, actor: Actor) -> Outcome:
        """The person allows what the request asks for, with the account that the page has shown. Raises what `resume` does."""
        request = _kept(flow)
        met = _found(await self._encounters.find(request.client_id, caller))
        return await self._settled(
            request, met, Progress(flow.created_at, account_chosen=True, consented=True, set_up_later=True), flow, actor
        )

    async def deny(self, flow: Flow) -> Answered:
        """The person does not want to, or may not. Raises `FlowOver`."""
        request = _kept(flow)
        await self._complete(flow)
        return self._refused(request.recipient, AuthorizationRefused(Word.ACCESS_DENIED, "The person has refused"))

    async def checked(self, parameters: Parameters, application: Application, answers_to: Recipient) -> AuthorizationRequest:
        """Raises `AuthorizationRefused`."""
        request = checked(parameters, application.registered, answers_to)
        hint = id_token_hint(parameters)
        if hint is None:
            return request
        said = await read_hint(self._verifier, hint)
        if said is None or said.client != request.client_id:
            raise AuthorizationRefused(Word.INVALID_REQUEST, NOT_OUR_HINT)
        return replace(request, subject=said.user)

    async def _settled(
        self, request: AuthorizationRequest, met: Encounter, progress: Progress, flow: Flow | None = None, actor: Actor | None = None
    ) -> Outcome:
        application, signed_in = met.application, met.signed_in
        try:
            require_open(request, application)
            step = next_step(request, application, signed_in, progress, self._clock.now())
            if step is not Step.DONE or signed_in is None:
                return Unfinished(step, request, application, signed_in)
            return Finished(await self._approved(request, application, signed_in, flow, actor), application)
        except ConsentTakenBack:
            return Unfinished(Step.CONSENT, request, application, signed_in)
        except AuthorizationRefused as refusal:
            if flow is not None:
                await self._complete(flow)
            return Finished(self._refused(request.recipient, refusal), application)

    async def _approved(
        self, request: AuthorizationRequest, application: Application, signed_in: SignedIn, flow: Flow | None, actor: Actor | None
    ) -> Answered:
        """With a code: for what the person has just allowed if there is an actor, or for what they have allowed before."""
        approved = Approved(
            service=application.service,
            user=signed_in.user,
            parent=signed_in.session,
            redirect_uri=request.recipient.redirect_uri,
            code_challenge=request.code_challenge,
            nonce=request.nonce,
            scopes=request.scopes,
            auth_time=signed_in.proved_at,
            authenticated_by=signed_in.authenticated_by,
        )
        async with self._unit_of_work() as uow:
            if flow is not None and not await uow.flows.complete(flow.id, self._clock.now()):
                raise FlowOver
            await uow.accounts.hold_shared(signed_in.user)
            if actor is not None:
                await self._consent(uow, Consent(signed_in.user, application.service, request.scopes, self._clock.now()), actor)
            code = await self._codes.issue(uow, approved)
            if actor is None and relies_on_consent(application, signed_in):
                await uow.consents.demand(signed_in.user, application.service, request.scopes)
            await uow.commit()
        return request.recipient.answered(self._issuer, {"code": code.reveal()})

    async def _consent(self, uow: UnitOfWork, consent: Consent, actor: Actor) -> None:
        organization = await uow.consents.give(ConsentId(self._ids.new()), consent)
        if organization is None:
            raise NotFound("This application does not exist any more", words="application_unknown")
        await uow.record(consent_given(consent, organization, actor))

    async def _complete(self, flow: Flow) -> None:
        async with self._unit_of_work() as uow:
            if not await uow.flows.complete(flow.id, self._clock.now()):
                raise FlowOver
            await uow.commit()

    def _refused(self, answers_to: Recipient, refusal: AuthorizationRefused) -> Answered:
        return answers_to.answered(self._issuer, {"error": refusal.word.value, "error_description": refusal.message})


def _found(met: Encounter | None) -> Encounter:
    if met is None:
        raise unknown_application()
    return met


def _taken(met: Encounter) -> AuthorizationRequest:
    if met.pushed is None:
        raise UnknownRecipient("request_uri: it has expired, or was used already", words="request_used")
    request = restored(met.pushed)
    registered = met.application.registered
    # What the service has registered may have changed since it pushed the request.
    if not is_registered(request.recipient.redirect_uri, registered.redirect_uris, native=registered.is_native):
        raise unregistered()
    return request


def _kept(flow: Flow) -> AuthorizationRequest:
    """Raises `FlowOver` for a flow that has led somewhere already: going back in the browser brings its pages up again."""
    if flow.purpose is not FlowPurpose.AUTHORIZE or flow.completed_at is not None:
        raise FlowOver
    kept: Mapping[str, Any] = flow.request
    return restored(kept)
