"""The answer to a service provider: the form with which the person's browser brings it, with an assertion or with a refusal."""

from collections.abc import Mapping
from typing import Final

from core.domain.federation.oauth.authorization_steps import (
    RequestingApplication,
    SignedInPerson,
)
from core.domain.federation.oauth.consents import Consent
from core.domain.federation.saml.exchanges import ExchangeKind, SamlExchange
from core.domain.federation.saml.messages import Response, SamlAssertion, repeated
from core.domain.federation.saml.sign_in import (
    PROVIDER,
    SamlSubject,
    attributes,
    named,
    session_end,
    stated_class,
    told,
)
from core.domain.identifiers import ConsentId, LoginEventId, SamlSessionId, ServiceId
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowOver
from core.domain.identity.login_events import login_event, login_tried
from core.domain.identity.sessions import Context
from core.domain.identity.sign_in import ServiceName
from core.domain.saml.messages import RequestDeclined, SamlBinding, Status
from core.frozen import Frozen
from core.usecases.federation.consents import give_consent
from core.usecases.federation.saml.messages import SamlMessages, not_usable
from core.usecases.federation.saml.visits import SamlVisit
from core.usecases.identity.flows import complete_once
from ports.federation.saml.configurations import Entering
from ports.federation.saml.documents import SamlDocuments
from ports.server_secrets import ServerSecrets
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# The name of the key that makes persistent name IDs.
NAME_IDS: Final = "saml_name_ids"
_BEGIN_AGAIN: Final = "Each request needs an ID of its own; people who reload the page begin again at the service provider"


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
