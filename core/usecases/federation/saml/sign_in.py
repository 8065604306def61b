"""Signs users in to SAML service providers, on their request or started here."""

from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest, Forbidden, NotFound, ReauthenticationRequired, SecondFactorRequired, TermsRequired
from core.domain.federation.oauth.authorization_steps import (
    AuthorizationStep,
    Progress,
    RequestingApplication,
    SignedInPerson,
    door_of,
    next_step,
    step_after,
    unasked_in_hiding,
)
from core.domain.federation.oauth.authorizations import AuthorizationRefused
from core.domain.federation.saml.configurations import Signer
from core.domain.federation.saml.messages import ExchangeKind, require_acs
from core.domain.federation.saml.sign_in import (
    Meeting,
    SamlRequest,
    as_authorization,
    asked,
    declined,
    goes_by,
    has_allowed,
    require_askable,
    require_no_agent,
    require_subject,
    told,
    told_by_assertion,
    unasked,
)
from core.domain.identifiers import BoundKeyId, FlowId, SessionId, UserId
from core.domain.identity.callers import Caller, members_only
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, Wanted, claimed_id, unclaimed_digest
from core.domain.identity.guards.hook_verdicts import AskingDoor, FlowAskedEnough, HooksBusy, HookVerdict
from core.domain.identity.sign_in import LastLook, ServiceName
from core.domain.saml import Envelope, MessageRefused, RequestDeclined, SamlBinding, Status, relay_state
from core.domain.secrets import Token
from core.domain.tenancy.roles import BuiltInRole
from core.frozen import Frozen, replace
from core.usecases.federation.saml.answers import NAME_IDS, Delivered, Met, SamlAnswers, SamlMessages, SamlVisit, SamlVisits, usable_meeting
from core.usecases.identity.flows import Flows, complete_once
from ports.crypto import ServerSecrets
from ports.federation.saml import SamlDocuments, SamlLookup
from ports.identity.sign_in import SignInHooks
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

FLOW_LIFETIME: Final = timedelta(minutes=15)
# Steps that the person of the account in use has to do, and nobody else.
_OF_ONE_ACCOUNT: Final = frozenset(
    {
        AuthorizationStep.PROVE,
        AuthorizationStep.CONFIRM_MEMBERSHIP,
        AuthorizationStep.ACCEPT_TERMS,
        AuthorizationStep.SET_UP_SECOND_FACTOR,
        AuthorizationStep.CONSENT,
        AuthorizationStep.TURN_AWAY,
    }
)
_ADMINISTERS: Final = frozenset({BuiltInRole.OWNER.value, BuiltInRole.ADMIN.value})


class UnfinishedSamlSignIn(Frozen):
    """The person has to do something first."""

    step: AuthorizationStep
    asked: SamlRequest
    application: RequestingApplication
    signed_in: SignedInPerson | None
    signer: Signer
    arrives_by: SamlBinding | None
    """How the request arrived that a flow has to keep. None when a flow keeps the request already, or there was no request."""
    tells: Sequence[str] = ()
    """The attributes that the service provider may learn, in the words of scopes. The page that asks for consent shows them."""


Outcome = Delivered | UnfinishedSamlSignIn


class SamlSignIn(Frozen):
    """It ends with a form that brings an assertion to the service provider. The user may have to complete steps first."""

    unit_of_work: UnitOfWorkFactory
    lookup: SamlLookup
    documents: SamlDocuments
    messages: SamlMessages
    visits: SamlVisits
    answers: SamlAnswers
    hooks: SignInHooks
    flows: Flows
    server_secrets: ServerSecrets
    issuer: str
    system: System

    async def meet(self, place: ServiceName, browser: Token | None, bound: BoundKeyId | None = None) -> Met:
        """The service and the caller, for a request of a browser with this session's cookie that has proved this key, in one round trip."""
        return await self.visits.meet(place, browser, bound)

    async def arrive(self, met: Met, envelope: Envelope, client: Client, *, waits: bool = False, others: Sequence[Caller] = ()) -> Outcome:
        """Takes a request that a browser brings. If the person has to do something first, `begin` keeps the request. With `waits`, the
        person in the browser is not known yet, and the browser comes back with its cookies. `others` are the accounts that are signed in
        in the browser beside the caller's. Raises `MessageRefused`, `NotFound` and
        `OrganizationNotActive`, which the person sees.
        """
        meeting = usable_meeting(met.meeting)
        async with self.messages.received(meeting.application.service, ExchangeKind.AUTHN_REQUEST, envelope.binding) as message:
            request = await self.documents.read_authn_request(envelope, tuple(meeting.configuration.signing_certificates))
            message.id = request.head.id
            self.messages.require_acceptable(request.head, meeting.configuration, f"{self.answers.entity_id(meeting.application)}/sso")
            acs_url, state = require_acs(request, meeting.configuration), relay_state(envelope.relay_state)
            try:
                wanted = asked(request, meeting.configuration, acs_url, state)
            except RequestDeclined as refusal:
                refused = SamlRequest(acs_url=acs_url, request_id=request.head.id, relay_state=state)
                return await self.answers.declined(SamlVisit(meeting, refused, arrives_by=envelope.binding), refusal)
            visit = SamlVisit(meeting, wanted, arrives_by=envelope.binding)
            if waits:
                return UnfinishedSamlSignIn(AuthorizationStep.DONE, wanted, meeting.application, None, visit.signer, visit.arrives_by)
            asks = bool(others) and not await self._names_present(visit)
            return await self._settled(visit, Progress(must_choose=asks), client)

    async def begin(self, unfinished: UnfinishedSamlSignIn, wanted: Wanted, *, browser: Token | None, email: str) -> Flow:
        """Keeps a request while the person does the missing steps. Without `browser`, the first browser that brings the flow's id owns the
        flow. Raises `MessageRefused` for a request that was taken before.
        """
        application, request = unfinished.application, unfinished.asked
        kept = {**request.stored(), "organization": application.organization_slug, "service": application.slug}
        flow = self.flows.made(FlowPurpose.SAML, kept, wanted, FLOW_LIFETIME, service=application.service, email=email)
        if unfinished.signed_in is not None and unfinished.step in _OF_ONE_ACCOUNT:
            flow = replace(flow, account=unfinished.signed_in.user)
        digest = unclaimed_digest(flow.id) if browser is None else browser.digest()
        if unfinished.arrives_by is None or request.request_id is None:
            async with self.unit_of_work() as uow:
                await uow.flows.add(flow, digest)
                await uow.commit()
            return flow
        received = self.messages.received(application.service, ExchangeKind.AUTHN_REQUEST, unfinished.arrives_by)
        async with received as message, self.unit_of_work() as uow:
            message.id = request.request_id
            await self.answers.take(uow, application.service, request.request_id, unfinished.arrives_by)
            await uow.flows.add(flow, digest)
            await uow.commit()
        return flow

    async def claim(self, flow: FlowId, browser: Token) -> FlowId:
        """Claims a flow that a form of another site began. Returns the flow's id in this browser. May be repeated. Raises `FlowOver`."""
        own = claimed_id(flow, browser)
        if not await self.lookup.claim(flow, browser.digest(), own):
            await self.flows.find(own, browser)
        return own

    async def resume(
        self,
        flow: Flow,
        caller: Caller | None,
        client: Client,
        *,
        set_up_later: bool = False,
        cannot_prove: bool = False,
        others: Sequence[Caller] = (),
    ) -> Outcome:
        """Resumes a request after the person has done a step. `others` are the accounts in the browser beside the caller's, if the person
        may still have to choose. Raises `FlowOver`, and the errors of `arrive`.
        """
        visit = await self.visits.met_again(flow, caller)
        asks = bool(others) and flow.belongs_to is None and not await self._names_present(visit)
        # A person who signed in through the API has no session in this browser, so no page can ask about the membership.
        asked_membership = flow.asked_memberships or set_up_later or caller is None
        progress = Progress(
            flow.created_at,
            account_chosen=not asks,
            must_choose=asks,
            set_up_later=set_up_later,
            asked_membership=asked_membership,
            cannot_prove=cannot_prove,
        )
        return await self._settled(visit, progress, client)

    async def allow(self, flow: Flow, caller: Caller | None, client: Client, shown: SessionId, scopes: Sequence[str]) -> Outcome:
        """The person of the session that the page has `shown` allows the service provider to learn what the page has named as `scopes`.
        Another person who has signed in meanwhile is asked again, and so is everybody if the service provider would learn more by now.
        Raises the errors of `resume`.
        """
        visit = await self.visits.with_facts(await self.visits.met_again(flow, caller))
        signed_in = visit.meeting.signed_in
        is_theirs = signed_in is not None and signed_in.session == shown and set(told(visit.meeting)) <= set(scopes)
        # The page shows the account, and comes after the pages that ask about the membership and about a second factor. So these steps
        # count as done. A form that is sent twice gives its consent once.
        consented = is_theirs and not flow.repeats
        progress = Progress(flow.created_at, account_chosen=True, consented=consented, set_up_later=True, asked_membership=True)
        return await self._settled(visit, progress, client)

    async def deny(self, flow: Flow) -> Delivered:
        """The person refuses the request, or may not allow it. Raises `FlowOver`, and the errors of `arrive`."""
        refusal = RequestDeclined(Status.REQUEST_DENIED, "The person cannot sign in there, or declined")
        return await self.answers.declined(await self.visits.refused(flow), refusal, refused=True)

    async def initiate(
        self, place: ServiceName, caller: Caller, client: Client, state: str | None, *, next_certificate: bool = False
    ) -> Outcome:
        """Begins a sign-in here, without a request. The sign-in is unfinished only when the person has to give consent. Raises `NotFound`,
        `OrganizationNotActive`, `BadRequest`, and `Forbidden`, `SecondFactorRequired`, `TermsRequired` or `ReauthenticationRequired` when
        the person has to do something else first.
        """
        meeting = usable_meeting(await self.lookup.meet(place.organization, place.service, caller))
        try:
            request = unasked(meeting.configuration, relay_state(state), next_certificate=next_certificate)
        except MessageRefused as refusal:
            raise BadRequest(f"RelayState: {refusal.reason}") from None
        if next_certificate:
            _require_trial(meeting)
        progress = Progress(set_up_later=True, asked_membership=True)
        outcome = await self._settled(SamlVisit(meeting, request), progress, client)
        if isinstance(outcome, Delivered) or outcome.step is AuthorizationStep.CONSENT:
            return outcome
        match outcome.step:
            case AuthorizationStep.TURN_AWAY:
                raise members_only()
            case AuthorizationStep.SET_UP_SECOND_FACTOR:
                raise SecondFactorRequired
            case AuthorizationStep.ACCEPT_TERMS:
                raise TermsRequired
            case _:
                raise ReauthenticationRequired(max_age=meeting.application.session_lifetime or timedelta(0))

    async def waiting(self, state: str) -> "WaitingSamlRequest":
        """The waiting request of a person who signs in through the API. Raises `BadRequest`."""
        try:
            flow = FlowId(UUID(state))
        except ValueError:
            raise _not_waiting() from None
        place = await self.lookup.waiting(flow)
        if place is None:
            raise _not_waiting()
        return WaitingSamlRequest(flow, place)

    async def signed_in(self, waiting: "WaitingSamlRequest", user: UserId, session: SessionId) -> str:
        """Ties a waiting request to a person who has signed in through the API. Returns the address to which the person's browser goes.
        Raises `BadRequest` when another sign-in was first.
        """
        async with self.unit_of_work() as uow:
            digest = sha256(f"api {session}".encode()).digest()
            confirmed = await uow.sign_ins.confirm(LastLook(user=user, flow=waiting.flow))
            if confirmed is None or not confirmed.flow_is_open:
                raise _not_waiting()
            await uow.flows.sign_in(waiting.flow, user, digest, session, self.system.clock.now(), by="")
            await uow.commit()
        return f"{self.issuer}{FINISH}?flow={waiting.flow}"

    async def _settled(self, visit: SamlVisit, progress: Progress, client: Client) -> Outcome:
        visit = await self.visits.with_facts(visit)
        request, meeting, application, signed_in = visit.request, visit.meeting, visit.application, visit.meeting.signed_in
        allowed = has_allowed(meeting)
        consents = progress.consented and not allowed
        progress = replace(progress, consented=consents or allowed)
        try:
            require_no_agent(application)
            require_askable(request, meeting)
            step = next_step(as_authorization(request, application), application, signed_in, progress, self.system.clock.now())
            if step is AuthorizationStep.CONSENT and visit.flow is not None and visit.flow.repeats:
                # This request has led to the service provider already, and the person has taken the consent back since.
                raise FlowOver
            if step is not AuthorizationStep.DONE or signed_in is None or meeting.subject is None:
                tells = told(meeting) if step is AuthorizationStep.CONSENT else ()
                return UnfinishedSamlSignIn(step, request, application, signed_in, visit.signer, visit.arrives_by, tells)
            require_subject(request, meeting.subject, application.service, await self.server_secrets.get(NAME_IDS))
            if signed_in.has_hooks:
                said = told_by_assertion(meeting, meeting.subject)
                door = door_of(
                    application,
                    signed_in,
                    lambda *_: said,
                    flow=visit.flow,
                    sender=client,
                    consents=consents,
                    is_hidden=request.passive,
                )
                heard = await self._asked(door, visit.flow)
                step = step_after(heard, as_authorization(request, application), signed_in, progress)
                if step is not AuthorizationStep.DONE:
                    return UnfinishedSamlSignIn(step, request, application, signed_in, visit.signer, visit.arrives_by)
        except AuthorizationRefused as refusal:
            return await self.answers.declined(visit, declined(refusal, passive=request.passive))
        except RequestDeclined as refusal:
            return await self.answers.declined(visit, refusal)
        return await self.answers.entered(visit, signed_in, meeting.subject, client, consents=consents)

    async def _asked(self, door: AskingDoor, flow: Flow | None) -> HookVerdict:
        """Raises `AuthorizationRefused` where no page may be shown and nobody is asked."""
        try:
            return await self.hooks.ask(door)
        except (HooksBusy, FlowAskedEnough) as refusal:
            if door.is_hidden:
                raise unasked_in_hiding(refusal) from None
            if flow is not None and isinstance(refusal, FlowAskedEnough):
                async with self.unit_of_work() as uow:
                    await complete_once(uow, flow, self.system.clock.now(), refused=True)
                    await uow.commit()
            raise

    async def _names_present(self, visit: SamlVisit) -> bool:
        """Whether the request names the person of the account in use."""
        named, subject = visit.request.subject, visit.meeting.subject
        if named is None or subject is None:
            return False
        return goes_by(named, subject.user, subject.email, visit.application.service, await self.server_secrets.get(NAME_IDS))


FINISH: Final = "/ui/saml"


class WaitingSamlRequest(Frozen):
    """A request that waits for a sign-in, and the service that it is for."""

    flow: FlowId
    place: ServiceName


def _not_waiting() -> BadRequest:
    return BadRequest("saml_state: it has expired, was used, or has not been opened in a browser yet", words="page_out_of_date")


def _require_trial(meeting: Meeting) -> None:
    if meeting.subject is None or meeting.subject.role not in _ADMINISTERS:
        raise Forbidden
    if meeting.next_signer is None:
        raise NotFound("The service has no next certificate: create one with activate=false first")
