"""Processes SAML messages of service providers: the requests, the user who brings one, and the response."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, Final

from core.domain.errors import NotFound
from core.domain.federation.oauth.authorization_steps import (
    RequestingApplication,
    SignedInPerson,
    organization_closed,
)
from core.domain.federation.oauth.consents import Consent
from core.domain.federation.saml.configurations import Configuration, Signer, saml_certificate_context
from core.domain.federation.saml.messages import (
    ExchangeKind,
    RememberedRequest,
    Response,
    SamlAssertion,
    SamlExchange,
    kept_id,
    remembered,
    repeated,
    require_signature,
    require_taken,
)
from core.domain.federation.saml.sign_in import (
    PROVIDER,
    Meeting,
    SamlRequest,
    SamlSubject,
    attributes,
    named,
    restored,
    session_end,
    stated_class,
    told,
)
from core.domain.identifiers import (
    BoundKeyId,
    ConsentId,
    LoginEventId,
    SamlCertificateId,
    SamlExchangeId,
    SamlSessionId,
    ServiceId,
    SessionId,
)
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose
from core.domain.identity.login_events import login_event, login_tried
from core.domain.identity.sessions import Context
from core.domain.identity.sign_in import ServiceName
from core.domain.saml import KeyPair, MessageHead, MessageRefused, RequestDeclined, SamlBinding, Status
from core.domain.secrets import Secret, Token
from core.frozen import Frozen, replace
from core.usecases.federation.consents import give_consent
from core.usecases.identity.flows import complete_once
from ports.crypto import KeyRing, ServerSecrets
from ports.federation.saml import Configured, Entering, SamlDocuments, SamlLookup
from ports.identity.accounts import FactLookup
from ports.metrics import Metrics
from ports.system import Presence, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_ID_BYTES: Final = 20


class ServiceProvider(Frozen):
    """A service whose SAML can be used."""

    configured: Configured
    configuration: Configuration
    signer: Signer

    @property
    def service(self) -> ServiceId:
        return self.configured.service

    @property
    def place(self) -> ServiceName:
        return ServiceName(self.configured.organization_slug, self.configured.service_slug)


class ReceivedMessage:
    """A message that is being read."""

    def __init__(self) -> None:
        self.id = ""
        """Empty until it could be read."""


class SamlMessages(Frozen):
    unit_of_work: UnitOfWorkFactory
    keyring: KeyRing
    metrics: Metrics
    issuer: str
    system: System

    def entity_id(self, place: ServiceName) -> str:
        """Our entity ID for a service. The URLs of the service's endpoints begin with the entity ID."""
        return f"{self.issuer}/saml/{place.organization}/{place.service}"

    def new_id(self) -> str:
        return f"_{self.system.secrets.key_bytes(_ID_BYTES).hex()}"

    def opened(self, signer: Signer) -> KeyPair:
        return _opened(self.keyring, signer.certificate.id, signer.certificate.pem, signer.sealed_private_key)

    @asynccontextmanager
    async def received(self, service: ServiceId, kind: ExchangeKind, binding: SamlBinding) -> AsyncIterator[ReceivedMessage]:
        """Records a refused message in a unit of work of its own, because a refused message changes nothing else."""
        message = ReceivedMessage()
        try:
            yield message
        except MessageRefused as refusal:
            async with self.unit_of_work() as uow:
                refused = self.exchange(service, kind, binding, reason=refusal.reason, advice=refusal.advice, message=message.id)
                await self.record(uow, refused)
                await uow.commit()
            raise

    def require_acceptable(self, head: MessageHead, configuration: Configuration, destination: str) -> None:
        """Checks the head of a message, and its signature where one is required. Raises `MessageRefused`."""
        require_taken(head, configuration, destination, self.system.clock.now())
        require_signature(head, configuration)

    def remembered(self, request_id: str) -> RememberedRequest:
        """The entry with which `SamlStore` takes each request once."""
        return remembered(self.system.ids.new(), request_id, self.system.clock.now())

    def exchange(
        self,
        service: ServiceId,
        kind: ExchangeKind,
        binding: SamlBinding,
        *,
        status: Status | None = None,
        reason: str = "",
        advice: str = "",
        message: str = "",
        in_response_to: str = "",
        certificate: SamlCertificateId | None = None,
        succeeded: bool | None = None,
    ) -> SamlExchange:
        """An exchange that happens now. Without `succeeded`, an exchange without a `reason` has succeeded."""
        return SamlExchange(
            id=SamlExchangeId(self.system.ids.new()),
            service=service,
            kind=kind,
            binding=binding,
            succeeded=not reason if succeeded is None else succeeded,
            status="" if status is None else status.last,
            reason=reason,
            advice=advice,
            message=kept_id(message),
            in_response_to=kept_id(in_response_to),
            certificate=certificate,
            created_at=self.system.clock.now(),
        )

    async def record(self, uow: UnitOfWork, *exchanges: SamlExchange) -> None:
        """Adds exchanges to the flight recorder of the service, within the caller's unit of work, without a round trip of its own."""
        await uow.saml.exchanged(*exchanges)
        for exchange in exchanges:
            self.metrics.saml_exchanged(exchange.kind.value, succeeded=exchange.succeeded)


# The cache holds the keys that sign in a busy minute. The signing adapter keeps as many keys.
@lru_cache(maxsize=64)
def _opened(keyring: KeyRing, certificate: SamlCertificateId, pem: str, sealed_private_key: bytes) -> KeyPair:
    return KeyPair(pem, Secret(keyring.open(sealed_private_key, saml_certificate_context(certificate)).decode()))


def usable_provider(configured: Configured | None) -> ServiceProvider:
    """Raises `NotFound` for a service without usable SAML, and `OrganizationNotActive`."""
    if configured is None or configured.configuration is None or not configured.configuration.enabled or configured.active is None:
        raise not_usable()
    if not configured.organization_is_active:
        raise organization_closed()
    return ServiceProvider(configured, configured.configuration, configured.active)


def not_usable() -> NotFound:
    return NotFound("SAML is not available for this service: it is not enabled, or has no certificate", words="saml_unknown")


class Met(Frozen):
    """A service, if there is one, and the person who is signed in in the browser."""

    meeting: Meeting | None
    caller: Caller | None


class SamlVisit(Frozen):
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


class SamlVisits(Frozen):
    lookup: SamlLookup
    facts: FactLookup
    presence: Presence[SessionId]
    system: System

    async def meet(self, place: ServiceName, browser: Token | None, bound: BoundKeyId | None = None) -> Met:
        """The service and the caller, for a request of a browser with this session's cookie that has proved this key, in one round trip."""
        digest = None if browser is None else browser.digest()
        meeting, caller = await self.lookup.meet_in_browser(place.organization, place.service, digest, bound)
        if caller is not None:
            self.presence.seen(caller.session, self.system.clock.now())
        return Met(meeting, caller)

    async def met_again(self, flow: Flow, caller: Caller | None) -> SamlVisit:
        """Looks up a kept request again, with the person who has signed in for the request, or else with the caller."""
        place, request = kept_request(flow)
        meeting = usable_meeting(
            await self.lookup.meet(
                place.organization, place.service, None if flow.session is not None else caller, flow.session or _session(caller)
            )
        )
        require_configured(request, meeting)
        return SamlVisit(meeting, request, flow)

    async def with_facts(self, visit: SamlVisit) -> SamlVisit:
        """Only a service or a person with more than the account costs the round trip."""
        subject = visit.meeting.subject
        if subject is None or not subject.tells_more:
            return visit
        facts = await self.facts.find(visit.application.service, subject.user)
        return replace(visit, meeting=replace(visit.meeting, subject=replace(subject, facts=facts, tells_more=False)))

    async def refused(self, flow: Flow) -> SamlVisit:
        """The visit of a person who refuses a kept request, or may not allow it. Raises `FlowOver`, and the errors of `usable`."""
        place, request = kept_request(flow, refusing=True)
        meeting = usable_meeting(await self.lookup.meet(place.organization, place.service, None))
        require_configured(request, meeting)
        return SamlVisit(meeting, request, flow)


def kept_request(flow: Flow, *, refusing: bool = False) -> tuple[ServiceName, SamlRequest]:
    """Raises `FlowOver`."""
    flow.require_unanswered(FlowPurpose.SAML, refusing=refusing)
    kept: Mapping[str, Any] = flow.request
    return ServiceName(kept["organization"], kept["service"]), restored(kept)


def usable_meeting(meeting: Meeting | None) -> Meeting:
    """Raises `NotFound` and `OrganizationNotActive`."""
    if meeting is None or not meeting.configuration.enabled or meeting.signer is None:
        raise not_usable()
    if not meeting.application.organization_is_active:
        raise organization_closed()
    return meeting


def require_configured(request: SamlRequest, meeting: Meeting) -> None:
    """Raises `FlowOver` when the address for the answer was removed while the person signed in, or when another service provider has
    replaced the one that the page showed to the person.
    """
    if meeting.configuration.acs(request.acs_url, None) is None:
        raise FlowOver
    if request.audience not in {None, meeting.configuration.entity_id}:
        raise FlowOver


def _session(caller: Caller | None) -> SessionId | None:
    return None if caller is None else caller.session


# The name of the key that makes persistent name IDs.
NAME_IDS: Final = "saml_name_ids"
_BEGIN_AGAIN: Final = "Each request needs a unique ID; people who reload the page start again at the service provider"


class Delivered(Frozen):
    """An answer for the service provider, in a form that the person's browser sends."""

    action: str
    fields: Mapping[str, str]
    application: RequestingApplication
    succeeded: bool


class SamlAnswers(Frozen):
    unit_of_work: UnitOfWorkFactory
    documents: SamlDocuments
    messages: SamlMessages
    server_secrets: ServerSecrets
    system: System

    async def entered(
        self, visit: SamlVisit, signed_in: SignedInPerson, subject: SamlSubject, client: Client, *, consents: bool
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
        login = login_event(
            LoginEventId(self.system.ids.new()), actor, now, user=subject.user, provider=_provider(visit.flow, signed_in), context=context
        )
        is_logged = visit.flow is not None and visit.flow.sign_in_is_logged and visit.flow.session == signed_in.session
        entering = Entering(
            session_index=SamlSessionId(self.system.ids.new()),
            service=application.service,
            user=subject.user,
            session=signed_in.session,
            name_id=name_id,
            login=login,
            logs=not is_logged,
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
            if not is_logged:
                await uow.record(login_tried(login, actor))
            await self.messages.record(uow, *exchanges)
            await uow.commit()
        response = Response(
            id=response_id,
            issuer=self.entity_id(application),
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
            return await self.declined(SamlVisit(visit.meeting, request), refusal)

    async def declined(self, visit: SamlVisit, refusal: RequestDeclined, *, refused: bool = False) -> Delivered:
        """Answers a request without an assertion. With `refused`, the person has refused the request."""
        request, application, now = visit.request, visit.application, self.system.clock.now()
        response = Response(
            id=self.messages.new_id(),
            issuer=self.entity_id(application),
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
                await self.take(uow, application.service, request.request_id, visit.arrives_by)
            await self.messages.record(uow, self._answered(visit, response.id, refusal.status, refusal.reason))
            await uow.commit()
        return await self._delivered(response, visit)

    async def take(self, uow: UnitOfWork, service: ServiceId, request_id: str, binding: SamlBinding) -> None:
        """Uses the request up: a request counts once. Raises `MessageRefused`."""
        if not await uow.saml.take(service, self.messages.remembered(request_id)):
            raise repeated(_BEGIN_AGAIN)
        await self.messages.record(uow, self._arrived(service, request_id, binding))

    def _arrived(self, service: ServiceId, request_id: str, binding: SamlBinding) -> SamlExchange:
        return self.messages.exchange(service, ExchangeKind.AUTHN_REQUEST, binding, message=request_id)

    def _answered(self, visit: SamlVisit, response_id: str, status: Status, reason: str = "") -> SamlExchange:
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

    async def _delivered(self, response: Response, visit: SamlVisit) -> Delivered:
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

    def entity_id(self, application: RequestingApplication) -> str:
        return self.messages.entity_id(ServiceName(application.organization_slug, application.slug))


def _provider(flow: Flow | None, signed_in: SignedInPerson) -> str:
    """The provider's name in the log of sign-ins: how the person signed in for this request, if they did."""
    return PROVIDER if flow is None or flow.session != signed_in.session else flow.signed_in_by or PROVIDER
