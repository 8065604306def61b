"""Single logout: a service provider or the person asks for the sign-out, and all service providers of the session get a request."""

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from core.domain.errors import NotFound, OrganizationNotActive
from core.domain.federation.saml.messages import (
    ExchangeKind,
    LogoutRoute,
    Origin,
    SamlExchange,
    Stop,
    flow_and_stop,
    message_id,
    repeated,
    restored,
)
from core.domain.federation.saml.sign_in import goes_by, may_be_persistent, may_be_transient
from core.domain.identifiers import FlowId, SamlSessionId, ServiceId, SessionId, UserId
from core.domain.identity.browser_sessions import MOST_FRAMES, FrameAddress, frames
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, SignInRequirements, unclaimed_digest
from core.domain.identity.sessions import session_ended
from core.domain.identity.sign_in import ServiceName
from core.domain.requests import REPEAT_MOMENT
from core.domain.saml import (
    Envelope,
    LogoutResponse,
    OurLogoutRequest,
    OurLogoutResponse,
    SamlBinding,
    SamlLogoutRequest,
    Status,
    relay_state,
    require_unexpired,
)
from core.domain.secrets import Token
from core.frozen import Frozen
from core.usecases.federation.saml.answers import NAME_IDS, SamlMessages, ServiceProvider, usable_provider
from core.usecases.federation.saml.sign_in import FLOW_LIFETIME
from core.usecases.identity.flows import Flows
from ports.crypto import ServerSecrets
from ports.federation.saml import MOST_PARTICIPANTS, Participant, SamlDocuments, SamlLookup
from ports.system import Clock
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class ServiceMessage(Frozen):
    """A message for a service provider, in a form with these `fields`. Without `fields`, the `url` contains the message."""

    url: str
    fields: dict[str, str]
    service_name: str


class FinishedLogout(Frozen):
    """All service providers got their request, and none waits for an answer."""

    partial: bool
    way_back: str | None = None
    """The address to which the person goes now. None when the person stays here."""


class Bounced(Frozen):
    """The browser has to send the request again with a GET. The form of another site brings no cookies, and the sign-out needs to know who
    is signed in in this browser.
    """


class OnwardInBrowser(Frozen):
    """The browser has to come back with a GET. Only the person's own browser carries the next request, and only a GET brings the cookies
    that identify this browser.
    """

    flow: FlowId


class FramedLogout(Frozen):
    """The browser loads pages of applications, each in a frame, and goes on: with the flow `goes_on`, or to the end of the sign-out."""

    frames: Sequence[str]
    goes_on: FlowId | None
    end: FinishedLogout


Next = ServiceMessage | FinishedLogout | Bounced | OnwardInBrowser | FramedLogout


class SamlLogouts(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: SamlLookup
    documents: SamlDocuments
    messages: SamlMessages
    flows: Flows
    server_secrets: ServerSecrets
    clock: Clock
    issuer: str

    async def asked(self, place: ServiceName, envelope: Envelope, caller: Caller | None, client: Client, *, browser: Token | None) -> Next:
        """A service provider asks to sign a person out. A request with a known signature counts for every person. A request without counts
        only for the person who is signed in in this browser. Only the person's own browser carries requests to the other service
        providers. `browser` is the browser's secret for flows, or None for a request that cannot bring cookies. Raises `MessageRefused`,
        `NotFound` and `OrganizationNotActive`.
        """
        provider = await self._provider(place)
        async with self.messages.received(provider.service, ExchangeKind.LOGOUT_REQUEST, envelope.binding) as message:
            request = await self.documents.read_logout_request(envelope, tuple(provider.configuration.signing_certificates))
            message.id = request.head.id
            self.messages.require_acceptable(request.head, provider.configuration, self._destination(place))
            require_unexpired(request.not_on_or_after, self.clock.now())
            relay_state(envelope.relay_state)
            if not request.head.signed and browser is None:
                return Bounced()
            return await self._ended(provider, request, envelope, caller=caller, client=client, browser=browser)

    async def answered(self, place: ServiceName, envelope: Envelope, browser: Token | None) -> Next:
        """A service provider answers our request with the result of its sign-out. Raises the errors of `asked`, and `FlowOver`."""
        provider = await self._provider(place)
        async with self.messages.received(provider.service, ExchangeKind.LOGOUT_RESPONSE, envelope.binding) as message:
            response = await self.documents.read_logout_response(envelope, tuple(provider.configuration.signing_certificates))
            message.id = response.head.id
            # An answer without the required signature is refused.
            self.messages.require_acceptable(response.head, provider.configuration, self._destination(place))
        asked = flow_and_stop(response.in_response_to)
        if asked is None:
            raise FlowOver
        flow, is_its_browser = await self._brought(asked[0], browser)
        route = restored(flow.request)
        # A reloaded page sends its answer again. The repeated answer does not move the sign-out on.
        if route.done == asked[1] and route.current is not None and route.current.place == place:
            route = route.passed(well=response.well)
            async with self.unit_of_work() as uow:
                await uow.saml.keep_logout(flow.id, route.stored())
                exchange = self.messages.exchange(
                    provider.service,
                    ExchangeKind.LOGOUT_RESPONSE,
                    envelope.binding,
                    reason=_failure(response),
                    message=response.head.id,
                    in_response_to=response.in_response_to or "",
                )
                await self.messages.record(uow, exchange)
                await uow.commit()
        return await self._next(flow, route) if is_its_browser else OnwardInBrowser(flow.id)

    async def _brought(self, id_: FlowId, browser: Token | None) -> tuple[Flow, bool]:
        """The flow, and whether this browser carries the flow. Raises `FlowOver`."""
        flow = None
        if browser is not None:
            with suppress(FlowOver):
                flow = await self.flows.find(id_, browser)
        is_its_browser = flow is not None
        flow = flow or await self.lookup.logout(id_)
        if flow is None or not self._goes_on(flow):
            raise FlowOver
        return flow, is_its_browser

    async def sign_out(
        self, caller: Caller, client: Client, browser: Token, way_back: str | None = None, ui_locales: Sequence[str] = ()
    ) -> Flow | None:
        """Signs the person out, here or at an application with a `way_back`. Ends the session and all sessions that were opened from the
        session. Returns the flow through the applications that hear of it in the browser: in frames, and the service providers. None when
        the session has none of either, or when no service provider can be reached and the person goes back to the application. May be
        repeated.
        """
        async with self.unit_of_work() as uow:
            await uow.accounts.lock_for_update(caller.user)
            participants = await uow.saml.participants(caller.session)
            told = await self._end(uow, caller.user, [caller.session], client, caller.user)
            flow = None
            if participants or told:
                if participants:
                    await uow.saml.end([one.session_index for one in participants])
                route = LogoutRoute(_stops(participants), partial=_is_partial(participants), way_back=way_back, frames=told)
                if route.stops or told or way_back is None:
                    flow = self._flow(route, ui_locales)
                    await uow.flows.add(flow, browser.digest())
            await uow.commit()
        return flow

    async def begun(self, browser: Token) -> Flow | None:
        """The sign-out that this browser began a moment ago. A form that is sent twice finds the first sign-out here."""
        return await self.lookup.sign_out_under_way(browser.digest(), self.clock.now() - REPEAT_MOMENT)

    async def go_on(self, flow: Flow) -> Next:
        """Continues a sign-out at its next service provider. Raises `FlowOver`."""
        if not self._goes_on(flow):
            raise FlowOver
        return await self._next(flow, restored(flow.request))

    async def claim(self, id_: FlowId, browser: Token, session: Token | None) -> Next:
        """Continues a sign-out that the form of another site began. The first browser that brings the flow's id owns the flow. If another
        person uses this browser, the other service providers get no request. Raises `FlowOver`.
        """
        flow = await self.lookup.logout(id_)
        if flow is None or flow.completed_at is not None or not await self.lookup.claim(id_, browser.digest(), id_):
            raise FlowOver
        route = restored(flow.request)
        if session is None or not await self.lookup.was_in(session.digest(), route.people):
            route = route.abandoned()
            async with self.unit_of_work() as uow:
                await uow.saml.keep_logout(flow.id, route.stored())
                await uow.commit()
        return await self._next(flow, route)

    async def _ended(
        self,
        provider: ServiceProvider,
        request: SamlLogoutRequest,
        envelope: Envelope,
        *,
        caller: Caller | None,
        client: Client,
        browser: Token | None,
    ) -> Next:
        service = provider.service
        origin = Origin(provider.place, request.head.id, envelope.relay_state, envelope.sent_by)
        key = await self.server_secrets.get(NAME_IDS)
        async with self.unit_of_work() as uow:
            if not await uow.saml.take(service, self.messages.remembered(request.head.id)):
                raise repeated("Each request needs a unique ID")
            found = await self._meant(uow, service, request, caller, key)
            others: list[Participant] = []
            # The look-up finds a limited number of sessions. A person with more sessions needs another sign-out, so this one is partial.
            partial = len(found) >= MOST_PARTICIPANTS
            people = _by_person(found)
            told: list[str] = []
            for user, sessions in people.items():
                await uow.accounts.lock_for_update(user)
                for session in sessions:
                    participants = await uow.saml.participants(session)
                    partial = partial or _is_partial(participants, but=service)
                    others += [one for one in participants if one.service != service]
                told += await self._end(uow, user, sessions, client, None if caller is None else caller.user)
                await uow.saml.end_sessions_in(service, user)
            await uow.saml.end([one.session_index for one in [*found, *others]])
            unknown = not found and not request.head.signed
            reason, advice = ("", "") if found else _nothing_ended(request)
            exchange = self.messages.exchange(
                service,
                ExchangeKind.LOGOUT_REQUEST,
                envelope.binding,
                reason=reason,
                advice=advice,
                message=request.head.id,
                succeeded=not unknown,
            )
            await self.messages.record(uow, exchange)
            route = LogoutRoute(_stops(others), origin, partial=partial, people=tuple(people), frames=tuple(told[:MOST_FRAMES]))
            if browser is not None and (caller is None or caller.user not in people):
                route = route.abandoned()
            flow = self._flow(route)
            await uow.flows.add(flow, unclaimed_digest(flow.id) if browser is None else browser.digest())
            await uow.commit()
        if unknown:
            return await self._answer(flow, origin, Status.UNKNOWN_PRINCIPAL)
        if browser is None and (route.current is not None or route.frames):
            return OnwardInBrowser(flow.id)
        return await self._next(flow, route)

    async def _meant(
        self, uow: UnitOfWork, service: ServiceId, request: SamlLogoutRequest, caller: Caller | None, key: bytes
    ) -> Sequence[Participant]:
        """The sessions that the request names. A service provider may have received several names for a session, and only the latest is
        kept. But the session has one index for the service provider.
        """
        name, indexes = request.name_id, _indexes(request.session_indexes)
        if request.session_indexes and not indexes:
            return []
        if request.head.signed and indexes:
            # Only this service provider has received the index.
            return await uow.saml.participants_indexed(service, indexes)
        if request.head.signed:
            named = await uow.saml.participants_named(service, name, persistent=may_be_persistent(name))
            return [one for one in named if _has_name(one, name, key)]
        if caller is None:
            return []
        return [
            one
            for one in await uow.saml.participants(caller.session)
            if one.service == service
            and (_has_name(one, name, key) or (indexes and may_be_transient(name)))
            and (not indexes or one.session_index in indexes)
        ]

    async def _end(
        self, uow: UnitOfWork, user: UserId, sessions: Sequence[SessionId], client: Client, actor: UserId | None
    ) -> Sequence[str]:
        """Ends the sessions. Returns the pages that the browser loads in frames. The caller locks the account before it looks for the
        participants. So a request that opens a session from one of `sessions`, or signs it in at another service provider, is either
        finished already, or waits and finds the session ended.
        """
        told: list[FrameAddress] = []
        for session in sessions:
            ended = await uow.sessions.end(session, user)
            if ended is not None:
                told += ended
                organization = await uow.sessions.organization(session)
                await uow.record(session_ended(user, organization, client.actor(actor), session))
        return frames(told, self.issuer)

    async def _next(self, flow: Flow, route: LogoutRoute) -> Next:
        """The frames that the browser loads, or the next message that it carries. Service providers that cannot be reached any more are
        skipped.
        """
        if route.frames:
            return await self._framed(flow, route)
        while (stop := route.current) is not None:
            told = await self._tell(flow, route, stop)
            if told is not None:
                return told
            route = route.passed(well=False)
            async with self.unit_of_work() as uow:
                await uow.saml.keep_logout(flow.id, route.stored())
                await uow.commit()
        if route.origin is not None:
            return await self._answer(flow, route.origin, route.status)
        await self.flows.complete(flow)
        return FinishedLogout(route.partial, route.way_back)

    async def _framed(self, flow: Flow, route: LogoutRoute) -> FramedLogout:
        end = FinishedLogout(route.partial, route.way_back)
        if route.current is None and route.origin is None:
            await self.flows.complete(flow)
            return FramedLogout(route.frames, None, end)
        async with self.unit_of_work() as uow:
            await uow.saml.keep_logout(flow.id, route.framed().stored())
            await uow.commit()
        return FramedLogout(route.frames, flow.id, end)

    async def _tell(self, flow: Flow, route: LogoutRoute, stop: Stop) -> ServiceMessage | None:
        try:
            provider = await self._provider(stop.place)
        except (NotFound, OrganizationNotActive):
            return None
        configuration = provider.configuration
        if configuration.slo_url is None:
            return None
        if stop.audience not in {None, configuration.entity_id}:
            # The service has another service provider by now, which never received the person's name.
            return None
        message = OurLogoutRequest(
            id=message_id(flow.id, route.done),
            issuer=self.messages.entity_id(stop.place),
            destination=configuration.slo_url,
            issued_at=self.clock.now(),
            name_id=stop.name_id,
            session_index=stop.session_index,
            audience=configuration.entity_id,
        )
        told, exchange = await self._message(provider, message, configuration.slo_binding or SamlBinding.REDIRECT, None)
        async with self.unit_of_work() as uow:
            await self.messages.record(uow, exchange)
            await uow.commit()
        return told

    async def _answer(self, flow: Flow, origin: Origin, status: Status) -> Next:
        provider = await self._provider(origin.place)
        url = provider.configuration.slo_response_url or provider.configuration.slo_url
        if url is None:
            await self.flows.complete(flow)
            return FinishedLogout(status is not Status.SUCCESS)
        message = OurLogoutResponse(
            id=self.messages.new_id(),
            issuer=self.messages.entity_id(origin.place),
            destination=url,
            in_response_to=origin.request_id,
            issued_at=self.clock.now(),
            status=status,
        )
        binding = provider.configuration.slo_binding or origin.binding
        told, exchange = await self._message(provider, message, binding, origin.relay_state)
        async with self.unit_of_work() as uow:
            await uow.flows.complete(flow.id, self.clock.now())
            await self.messages.record(uow, exchange)
            await uow.commit()
        return told

    async def _message(
        self, provider: ServiceProvider, message: OurLogoutRequest | OurLogoutResponse, binding: SamlBinding, state: str | None
    ) -> tuple[ServiceMessage, SamlExchange]:
        """The message in its form or address, and its entry for the flight recorder."""
        redirect, signer = binding is SamlBinding.REDIRECT, self.messages.opened(provider.signer)
        written = await self.documents.write_logout(message, signer, relay_state=state, redirect=redirect)
        answer = message if isinstance(message, OurLogoutResponse) else None
        exchange = self.messages.exchange(
            provider.service,
            ExchangeKind.OUR_LOGOUT_REQUEST if answer is None else ExchangeKind.OUR_LOGOUT_RESPONSE,
            binding,
            status=None if answer is None else answer.status,
            message=message.id,
            in_response_to="" if answer is None else answer.in_response_to,
            certificate=provider.signer.certificate.id,
        )
        if redirect:
            return ServiceMessage(written, {}, provider.configured.service_name), exchange
        fields = {"SAMLRequest" if answer is None else "SAMLResponse": written}
        if state is not None:
            fields["RelayState"] = state
        return ServiceMessage(message.destination, fields, provider.configured.service_name), exchange

    def _goes_on(self, flow: Flow) -> bool:
        """Whether the sign-out can continue. A sign-out that ended a moment ago can: a browser that sends a form twice drops the first
        answer, and needs the redirect again.
        """
        return flow.purpose is FlowPurpose.SAML_LOGOUT and (flow.completed_at is None or flow.has_just_ended(self.clock.now()))

    def _flow(self, route: LogoutRoute, ui_locales: Sequence[str] = ()) -> Flow:
        return self.flows.made(FlowPurpose.SAML_LOGOUT, route.stored(), SignInRequirements(ui_locales=tuple(ui_locales)), FLOW_LIFETIME)

    async def _provider(self, place: ServiceName) -> ServiceProvider:
        """Raises `NotFound` and `OrganizationNotActive`."""
        return usable_provider(await self.lookup.public(place.organization, place.service, fetched=None))

    def _destination(self, place: ServiceName) -> str:
        return f"{self.messages.entity_id(place)}/slo"


def _nothing_ended(request: SamlLogoutRequest) -> tuple[str, str]:
    """The reason and the advice for the flight recorder when no session was found."""
    if not request.head.signed:
        return "nobody of this name is signed in there by this browser", "Sign logout requests, and upload metadata with the certificate"
    told = "SessionIndex" if request.session_indexes else "NameID"
    return f"no session with this {told} was found", "Send the NameID and the SessionIndex of the person's latest assertion"


def _has_name(participant: Participant, name: str, key: bytes) -> bool:
    """Whether the service provider received this name, or could have received this name at any time."""
    return participant.name_id.text == name or goes_by(name, participant.user, participant.email, participant.service, key)


def _stops(participants: Sequence[Participant]) -> Sequence[Stop]:
    return tuple(
        Stop(ServiceName(one.organization_slug, one.service_slug), one.name_id, str(one.session_index), one.audience)
        for one in participants
        if one.slo_url is not None
    )


def _is_partial(participants: Sequence[Participant], *, but: ServiceId | None = None) -> bool:
    """Whether some service providers get no request: they have no address for logout, or are more than the look-up returns."""
    return len(participants) >= MOST_PARTICIPANTS or any(one.slo_url is None for one in participants if one.service != but)


def _by_person(participants: Sequence[Participant]) -> dict[UserId, list[SessionId]]:
    """The sessions by person, in the order of the people's ids: two sign-outs of the same people wait for each other without a deadlock."""
    people: dict[UserId, list[SessionId]] = {}
    for one in sorted(participants, key=lambda one: one.user):
        people.setdefault(one.user, []).append(one.session)
    return people


def _failure(response: LogoutResponse) -> str:
    """The failure in the flight recorder's words. Empty when the sign-out succeeded."""
    if response.well:
        return ""
    if response.partial:
        return "the service provider signed the person out only in part"
    return "the service provider could not sign the person out"


def _indexes(texts: Sequence[str]) -> list[SamlSessionId]:
    """The indexes that have the form of ours."""
    found = []
    for text in texts:
        try:
            found.append(SamlSessionId(UUID(text)))
        except ValueError:
            continue
    return found
