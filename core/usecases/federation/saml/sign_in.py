"""Sign-ins to SAML service providers. A sign-in begins with a request of the service provider, or here. It ends with a form that brings an
assertion to the service provider. The person may have to do something first.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from core.domain.errors import BadRequest, Forbidden, NotFound, ReauthenticationRequired, SecondFactorRequired
from core.domain.federation.oauth.authorization_steps import (
    AuthorizationStep,
    Progress,
    RequestingApplication,
    SignedInPerson,
    next_step,
    organization_closed,
)
from core.domain.federation.oauth.authorizations import AuthorizationRefused
from core.domain.federation.oauth.consents import Consent
from core.domain.federation.saml.certificates import Signer
from core.domain.federation.saml.exchanges import ExchangeKind, SamlExchange
from core.domain.federation.saml.messages import Response, SamlAssertion, repeated, require_acs
from core.domain.federation.saml.sign_in import (
    PROVIDER,
    Meeting,
    SamlRequest,
    SamlSubject,
    as_authorization,
    asked,
    attributes,
    declined,
    has_allowed,
    named,
    require_askable,
    require_no_agent,
    require_subject,
    restored,
    session_end,
    stated_class,
    told,
    unasked,
)
from core.domain.identifiers import ConsentId, FlowId, LoginEventId, SamlSessionId, ServiceId, SessionId, UserId
from core.domain.identity.callers import Caller, members_only
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, Wanted, claimed_id, unclaimed_digest
from core.domain.identity.login_events import login_event, login_tried
from core.domain.identity.sessions import Context
from core.domain.identity.sign_in import LastLook, ServiceName
from core.domain.saml.messages import Envelope, MessageRefused, RequestDeclined, SamlBinding, Status, relay_state
from core.domain.secrets import Token
from core.domain.tenancy.roles import BuiltInRole
from core.frozen import Frozen, replace
from core.usecases.federation.consents import give_consent
from core.usecases.federation.saml.messages import SamlMessages, not_usable
from core.usecases.identity.flows import Flows, complete_once
from ports.federation.saml.configurations import Entering, SamlLookup
from ports.federation.saml.documents import SamlDocuments
from ports.identity.facts import FactLookup
from ports.presence import Presence
from ports.server_secrets import ServerSecrets
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# The name of the key that makes persistent name IDs.
NAME_IDS: Final = "saml_name_ids"
FLOW_LIFETIME: Final = timedelta(minutes=15)
_ADMINISTERS: Final = frozenset({BuiltInRole.OWNER.value, BuiltInRole.ADMIN.value})
_BEGIN_AGAIN: Final = "Each request needs an ID of its own; people who reload the page begin again at the service provider"


class Delivered(Frozen):
    """An answer for the service provider, in a form that the person's browser sends."""

    action: str
    fields: Mapping[str, str]
    application: RequestingApplication
    succeeded: bool


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


class Met(Frozen):
    """A service, if there is one, and the person who is signed in in the browser."""

    meeting: Meeting | None
    caller: Caller | None


class _Visit(Frozen):
    """A request of a service provider, and the service that answers the request."""

    meeting: Meeting
    request: SamlRequest
    flow: Flow | None = None
    """The flow that has kept the request. None when the request arrives now, or there was no request."""
    arrives_by: SamlBinding | None = None
    """How the request arrives now. A request counts only when it arrives for the first time."""

    @property
    def application(self) -> RequestingApplication:
        return self.meeting.application

    @property
    def signer(self) -> Signer:
        signer = self.meeting.next_signer if self.request.next_certificate else self.meeting.signer
        assert signer is not None  # noqa: S101 - `_usable` and `_require_trial` have looked
        return signer


class SamlSignIn(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: SamlLookup
    documents: SamlDocuments
    messages: SamlMessages
    facts: FactLookup
    flows: Flows
    server_secrets: ServerSecrets
    presence: Presence[SessionId]
    issuer: str
    system: System

    async def meet(self, place: ServiceName, browser: Token | None) -> Met:
        """The service and the caller, for a request of a browser with this session's cookie, in one round trip."""
        digest = None if browser is None else browser.digest()
        meeting, caller = await self.lookup.meet_in_browser(place.organization, place.service, digest)
        if caller is not None:
            self.presence.seen(caller.session, self.system.clock.now())
        return Met(meeting, caller)

    async def arrive(self, met: Met, envelope: Envelope, client: Client, *, waits: bool = False) -> Outcome:
        """Takes a request that a browser brings. If the person has to do something first, `begin` keeps the request. With `waits`, the
        person in the browser is not known yet, and the browser comes back with its cookies. Raises `MessageRefused`, `NotFound` and
        `OrganizationNotActive`, which the person sees.
        """
        meeting = _usable(met.meeting)
        async with self.messages.received(meeting.application.service, ExchangeKind.AUTHN_REQUEST, envelope.binding) as message:
            request = await self.documents.read_authn_request(envelope, tuple(meeting.configuration.signing_certificates))
            message.id = request.head.id
            self.messages.require_acceptable(request.head, meeting.configuration, f"{self._entity_id(meeting.application)}/sso")
            acs_url, state = require_acs(request, meeting.configuration), relay_state(envelope.relay_state)
            try:
                wanted = asked(request, meeting.configuration, acs_url, state)
            except RequestDeclined as refusal:
                refused = SamlRequest(acs_url=acs_url, request_id=request.head.id, relay_state=state)
                return await self._declined(_Visit(meeting, refused, arrives_by=envelope.binding), refusal)
            visit = _Visit(meeting, wanted, arrives_by=envelope.binding)
            if waits:
                return UnfinishedSamlSignIn(AuthorizationStep.DONE, wanted, meeting.application, None, visit.signer, visit.arrives_by)
            return await self._settled(visit, Progress(), client)

    async def begin(self, unfinished: UnfinishedSamlSignIn, wanted: Wanted, *, browser: Token | None, email: str) -> Flow:
        """Keeps a request while the person does the missing steps. Without `browser`, the first browser that brings the flow's id owns the
        flow. Raises `MessageRefused` for a request that was taken before.
        """
        application, request = unfinished.application, unfinished.asked
        kept = {**request.stored(), "organization": application.organization_slug, "service": application.slug}
        flow = self.flows.made(FlowPurpose.SAML, kept, wanted, FLOW_LIFETIME, service=application.service, email=email)
        digest = unclaimed_digest(flow.id) if browser is None else browser.digest()
        if unfinished.arrives_by is None or request.request_id is None:
            async with self.unit_of_work() as uow:
                await uow.flows.add(flow, digest)
                await uow.commit()
            return flow
        received = self.messages.received(application.service, ExchangeKind.AUTHN_REQUEST, unfinished.arrives_by)
        async with received as message, self.unit_of_work() as uow:
            message.id = request.request_id
            await self._take(uow, application.service, request.request_id, unfinished.arrives_by)
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
        self, flow: Flow, caller: Caller | None, client: Client, *, set_up_later: bool = False, cannot_prove: bool = False
    ) -> Outcome:
        """Resumes a request after the person has done a step. Raises `FlowOver`, and the errors of `arrive`."""
        visit = await self._met_again(flow, caller)
        # A person who signed in through the API has no session in this browser, so no page can ask about the membership.
        asked_membership = flow.asked_memberships or set_up_later or caller is None
        progress = Progress(
            flow.created_at,
            account_chosen=True,
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
        visit = await self._with_facts(await self._met_again(flow, caller))
        signed_in = visit.meeting.signed_in
        is_theirs = signed_in is not None and signed_in.session == shown and set(told(visit.meeting)) <= set(scopes)
        # The page shows the account, and comes after the pages that ask about the membership and about a second factor. So these steps
        # count as done. A form that is sent twice gives its consent once.
        consented = is_theirs and not flow.repeats
        progress = Progress(flow.created_at, account_chosen=True, consented=consented, set_up_later=True, asked_membership=True)
        return await self._settled(visit, progress, client)

    async def deny(self, flow: Flow) -> Delivered:
        """The person refuses the request, or may not allow it. Raises `FlowOver`, and the errors of `arrive`."""
        place, request = kept_request(flow, refusing=True)
        meeting = _usable(await self.lookup.meet(place.organization, place.service, None))
        _require_configured(request, meeting)
        refusal = RequestDeclined(Status.REQUEST_DENIED, "The person may not sign in there, or does not want to")
        return await self._declined(_Visit(meeting, request, flow), refusal, refused=True)

    async def initiate(
        self, place: ServiceName, caller: Caller, client: Client, state: str | None, *, next_certificate: bool = False
    ) -> Outcome:
        """Begins a sign-in here, without a request. The sign-in is unfinished only when the person has to give consent. Raises `NotFound`,
        `OrganizationNotActive`, `BadRequest`, and `Forbidden`, `SecondFactorRequired` or `ReauthenticationRequired` when the person has to
        do something else first.
        """
        meeting = _usable(await self.lookup.meet(place.organization, place.service, caller))
        try:
            request = unasked(meeting.configuration, relay_state(state), next_certificate=next_certificate)
        except MessageRefused as refusal:
            raise BadRequest(f"RelayState: {refusal.reason}") from None
        if next_certificate:
            _require_trial(meeting)
        progress = Progress(set_up_later=True, asked_membership=True)
        outcome = await self._settled(_Visit(meeting, request), progress, client)
        if isinstance(outcome, Delivered) or outcome.step is AuthorizationStep.CONSENT:
            return outcome
        match outcome.step:
            case AuthorizationStep.TURN_AWAY:
                raise members_only()
            case AuthorizationStep.SET_UP_SECOND_FACTOR:
                raise SecondFactorRequired
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

    async def _met_again(self, flow: Flow, caller: Caller | None) -> _Visit:
        """Looks up a kept request again, with the person who has signed in for the request, or else with the caller."""
        place, request = kept_request(flow)
        meeting = _usable(
            await self.lookup.meet(
                place.organization, place.service, None if flow.session is not None else caller, flow.session or _session(caller)
            )
        )
        _require_configured(request, meeting)
        return _Visit(meeting, request, flow)

    async def _settled(self, visit: _Visit, progress: Progress, client: Client) -> Outcome:
        visit = await self._with_facts(visit)
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
        except AuthorizationRefused as refusal:
            return await self._declined(visit, declined(refusal, passive=request.passive))
        except RequestDeclined as refusal:
            return await self._declined(visit, refusal)
        return await self._entered(visit, signed_in, meeting.subject, client, consents=consents)

    async def _with_facts(self, visit: _Visit) -> _Visit:
        """Only a service or a person with more than the account costs the round trip."""
        subject = visit.meeting.subject
        if subject is None or not subject.tells_more:
            return visit
        facts = await self.facts.find(visit.application.service, subject.user)
        return replace(visit, meeting=replace(visit.meeting, subject=replace(subject, facts=facts, tells_more=False)))

    async def _entered(
        self, visit: _Visit, signed_in: SignedInPerson, subject: SamlSubject, client: Client, *, consents: bool
    ) -> Delivered:
        """Signs the person in to the service provider. With `consents`, the person has just given the consent."""
        now, request, application, configuration = self.system.clock.now(), visit.request, visit.application, visit.meeting.configuration
        assert configuration.entity_id is not None  # noqa: S101 - an enabled configuration has one
        name_id = named(
            request.name_id_format or configuration.format,
            subject,
            application.service,
            await self.server_secrets.get(NAME_IDS),
            self.messages.new_id(),
        )
        actor = client.actor(subject.user)
        context = Context(application.organization, application.organization_slug, application.service, application.slug)
        login = login_event(LoginEventId(self.system.ids.new()), actor, now, user=subject.user, provider=PROVIDER, context=context)
        entering = Entering(
            session_index=SamlSessionId(self.system.ids.new()),
            service=application.service,
            user=subject.user,
            session=signed_in.session,
            name_id=name_id,
            login=login,
            certificate=visit.signer.certificate.id,
            audience=configuration.entity_id,
            acs_url=request.acs_url,
            encryption_certificate=configuration.encryption_certificate,
            at=now,
        )
        response_id = self.messages.new_id()
        taken, exchanges = None, []
        if visit.arrives_by is not None and request.request_id is not None:
            taken = self.messages.remembered(request.request_id)
            exchanges.append(self._arrived(application.service, request.request_id, visit.arrives_by))
        exchanges.append(self._answered(visit, response_id, Status.SUCCESS))
        async with self.unit_of_work() as uow:
            if visit.flow is not None:
                # The account is locked before the flow, in the same order as in transactions that end both.
                await uow.accounts.hold(subject.user)
                await complete_once(uow, visit.flow, now)
            if consents:
                consent = Consent(subject.user, application.service, (), now, configuration.entity_id, told(visit.meeting))
                if not await give_consent(uow, ConsentId(self.system.ids.new()), consent, actor):
                    raise not_usable()
            entry = await uow.saml.enter(entering, taken)
            if entry is None:
                # The session, the consent or the service ended between the look-up and this statement.
                raise FlowOver
            if entry.is_repeated:
                raise repeated(_BEGIN_AGAIN)
            await uow.record(login_tried(login, actor))
            await self.messages.record(uow, *exchanges)
            await uow.commit()
        response = Response(
            id=response_id,
            issuer=self._entity_id(application),
            destination=request.acs_url,
            in_response_to=request.request_id,
            issued_at=now,
            status=Status.SUCCESS,
            assertion=SamlAssertion(
                id=self.messages.new_id(),
                name_id=name_id,
                audience=configuration.entity_id,
                recipient=request.acs_url,
                in_response_to=request.request_id,
                session_index=str(entry.session_index),
                session_ends_at=session_end(application, signed_in, visit.meeting.session_ends_at or now),
                authenticated_at=signed_in.authenticated_at,
                context_class=stated_class(signed_in.authenticated_by, request.context),
                attributes=attributes(configuration, application, subject),
            ),
        )
        try:
            return await self._delivered(response, visit)
        except RequestDeclined as refusal:
            return await self._declined(_Visit(visit.meeting, request), refusal)

    async def _declined(self, visit: _Visit, refusal: RequestDeclined, *, refused: bool = False) -> Delivered:
        """Answers a request without an assertion. With `refused`, the person has refused the request."""
        request, application, now = visit.request, visit.application, self.system.clock.now()
        response = Response(
            id=self.messages.new_id(),
            issuer=self._entity_id(application),
            destination=request.acs_url,
            in_response_to=request.request_id,
            issued_at=now,
            status=refusal.status,
            message=refusal.reason,
        )
        async with self.unit_of_work() as uow:
            if visit.flow is not None:
                await complete_once(uow, visit.flow, now, refused=refused)
            if visit.arrives_by is not None and request.request_id is not None:
                await self._take(uow, application.service, request.request_id, visit.arrives_by)
            await self.messages.record(uow, self._answered(visit, response.id, refusal.status, refusal.reason))
            await uow.commit()
        return await self._delivered(response, visit)

    async def _take(self, uow: UnitOfWork, service: ServiceId, request_id: str, binding: SamlBinding) -> None:
        """Uses the request up: a request counts once. Raises `MessageRefused`."""
        if not await uow.saml.take(service, self.messages.remembered(request_id)):
            raise repeated(_BEGIN_AGAIN)
        await self.messages.record(uow, self._arrived(service, request_id, binding))

    def _arrived(self, service: ServiceId, request_id: str, binding: SamlBinding) -> SamlExchange:
        return self.messages.exchange(service, ExchangeKind.AUTHN_REQUEST, binding, message=request_id)

    def _answered(self, visit: _Visit, response_id: str, status: Status, reason: str = "") -> SamlExchange:
        return self.messages.exchange(
            visit.application.service,
            ExchangeKind.RESPONSE,
            SamlBinding.POST,
            status=status,
            reason=reason,
            message=response_id,
            in_response_to=visit.request.request_id or "",
            certificate=visit.signer.certificate.id,
        )

    async def _delivered(self, response: Response, visit: _Visit) -> Delivered:
        request, configuration = visit.request, visit.meeting.configuration
        packed = await self.documents.write_response(
            response,
            self.messages.opened(visit.signer),
            sign_assertion=configuration.sign_assertions,
            sign_response=configuration.sign_response,
            encrypt_for=configuration.encryption_certificate,
        )
        fields = {"SAMLResponse": packed}
        if request.relay_state is not None:
            fields["RelayState"] = request.relay_state
        return Delivered(request.acs_url, fields, visit.application, response.status is Status.SUCCESS)

    def _entity_id(self, application: RequestingApplication) -> str:
        return self.messages.entity_id(ServiceName(application.organization_slug, application.slug))


FINISH: Final = "/ui/saml"


class WaitingSamlRequest(Frozen):
    """A request that waits for a sign-in, and the service that it is for."""

    flow: FlowId
    place: ServiceName


def _not_waiting() -> BadRequest:
    return BadRequest("saml_state: it has expired, was used, or has not been opened in a browser yet", words="page_out_of_date")


def kept_request(flow: Flow, *, refusing: bool = False) -> tuple[ServiceName, SamlRequest]:
    """Raises `FlowOver`."""
    flow.require_unanswered(FlowPurpose.SAML, refusing=refusing)
    kept: Mapping[str, Any] = flow.request
    return ServiceName(kept["organization"], kept["service"]), restored(kept)


def _session(caller: Caller | None) -> SessionId | None:
    return None if caller is None else caller.session


def _usable(meeting: Meeting | None) -> Meeting:
    if meeting is None or not meeting.configuration.enabled or meeting.signer is None:
        raise not_usable()
    if not meeting.application.organization_is_active:
        raise organization_closed()
    return meeting


def _require_configured(request: SamlRequest, meeting: Meeting) -> None:
    """Raises `FlowOver` when the address for the answer was removed while the person signed in, or when another service provider has
    replaced the one that the page showed to the person.
    """
    if meeting.configuration.acs(request.acs_url, None) is None:
        raise FlowOver
    if request.audience not in {None, meeting.configuration.entity_id}:
        raise FlowOver


def _require_trial(meeting: Meeting) -> None:
    if meeting.subject is None or meeting.subject.role not in _ADMINISTERS:
        raise Forbidden
    if meeting.next_signer is None:
        raise NotFound("The service has no next certificate: make one with activate=false first")
