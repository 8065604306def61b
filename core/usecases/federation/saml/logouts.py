"""Single logout: asked for by a service provider, or by the person here; told to all service providers of the session."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from core.domain.errors import NotFound, OrganizationNotActive
from core.domain.federation.saml.configurations import Binding
from core.domain.federation.saml.exchanges import ExchangeKind
from core.domain.federation.saml.logouts import Origin, Route, Stop, flow_and_stop, message_id, restored
from core.domain.federation.saml.messages import (
    Envelope,
    LogoutRequest,
    LogoutResponse,
    MessageRefused,
    OurLogoutRequest,
    OurLogoutResponse,
    Status,
    relay_state,
    remembered,
    require_signature,
    require_taken,
    require_unexpired,
)
from core.domain.federation.saml.sign_in import goes_by, may_be_persistent, may_be_transient
from core.domain.identifiers import FlowId, SamlSessionId, ServiceId, SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, Wanted, unclaimed_digest
from core.domain.identity.sessions import session_ended
from core.domain.identity.sign_in import ServiceName
from core.domain.repeats import MOMENT
from core.domain.secrets import Token
from core.frozen import Frozen
from core.usecases.federation.saml.configurations import identity_provider, opened, require_usable
from core.usecases.federation.saml.recording import Recorder
from core.usecases.federation.saml.sign_in import FLOW_LIFETIME, NAME_IDS
from core.usecases.identity.flows import Flows
from ports.clock import Clock
from ports.encryption import KeyRing
from ports.federation.saml.configurations import MOST_PARTICIPANTS, Configured, Participant, SamlLookup
from ports.federation.saml.documents import SamlDocuments
from ports.ids import Ids
from ports.secrets import Secrets
from ports.server_secrets import ServerSecrets
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_ID_BYTES: Final = 20


class Told(Frozen):
    """A message for a service provider: in a form with these fields, or in the address where there are none."""

    url: str
    fields: dict[str, str]
    service_name: str


class Finished(Frozen):
    """Everybody was told, and nobody waits for an answer."""

    partial: bool
    way_back: str | None = None
    """Where the person goes now. None: they stay here."""


class Bounced(Frozen):
    """Who is signed in in this browser has to be known, and the form of another site brings no cookies: it comes back with a GET."""


class Onward(Frozen):
    """The next one is told by the person's browser alone, and whether this is that browser shows when it comes back with a GET."""

    flow: FlowId


Next = Told | Finished | Bounced | Onward


class SamlLogouts:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        lookup: SamlLookup,
        documents: SamlDocuments,
        *,
        recorder: Recorder,
        flows: Flows,
        keyring: KeyRing,
        server_secrets: ServerSecrets,
        issuer: str,
        clock: Clock,
        ids: Ids,
        secrets: Secrets,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._documents = documents
        self._recorder = recorder
        self._flows = flows
        self._keyring = keyring
        self._server_secrets = server_secrets
        self._issuer = issuer
        self._clock = clock
        self._ids = ids
        self._secrets = secrets

    async def asked(self, place: ServiceName, envelope: Envelope, caller: Caller | None, client: Client, *, browser: Token | None) -> Next:
        """A service provider wants somebody signed out. Signed with a certificate that we know, its word is enough; otherwise it counts
        only for the person who is signed in in this browser. The others are told only by the person's own browser. `browser` is its secret
        for flows; None where it would not have been sent. Raises `MessageRefused`, `NotFound` and `OrganizationNotActive`.
        """
        configured = await self._lookup.public(place.organization, place.service, fetched=None)
        configuration, _ = require_usable(configured)
        assert configured is not None  # noqa: S101 - for the type checker: it is usable
        request: LogoutRequest | None = None
        try:
            request = await self._documents.read_logout_request(envelope, tuple(configuration.signing_certificates))
            now = self._clock.now()
            require_taken(request.head, configuration, self._destination(place), now)
            require_signature(request.head, configuration)
            require_unexpired(request.not_on_or_after, now)
            relay_state(envelope.relay_state)
            if not request.head.signed and browser is None:
                return Bounced()
            return await self._ended(configured, request, envelope, caller=caller, client=client, browser=browser)
        except MessageRefused as refusal:
            if refusal.words != _REPEATED:
                message = "" if request is None else request.head.id
                await self._recorder.refuse(configured.service, ExchangeKind.LOGOUT_REQUEST, envelope.binding, refusal, message)
            raise

    async def answered(self, place: ServiceName, envelope: Envelope, browser: Token | None) -> Next:
        """A service provider says how its sign-out went. Raises what `asked` does, and `FlowOver`."""
        configured = await self._lookup.public(place.organization, place.service, fetched=None)
        configuration, _ = require_usable(configured)
        assert configured is not None  # noqa: S101 - for the type checker: it is usable
        response: LogoutResponse | None = None
        try:
            response = await self._documents.read_logout_response(envelope, tuple(configuration.signing_certificates))
            require_taken(response.head, configuration, self._destination(place), self._clock.now())
            # An answer that is to be signed and is not says nothing that counts.
            require_signature(response.head, configuration)
        except MessageRefused as refusal:
            message = "" if response is None else response.head.id
            await self._recorder.refuse(configured.service, ExchangeKind.LOGOUT_RESPONSE, envelope.binding, refusal, message)
            raise
        asked = flow_and_stop(response.in_response_to)
        if asked is None:
            raise FlowOver
        flow, is_its_browser = await self._brought(asked[0], browser)
        route = restored(flow.request)
        # A page that is loaded again sends its answer again: then the sign-out is where it was.
        if route.done == asked[1] and route.current is not None and route.current.place == place:
            route = route.passed(well=response.well)
            async with self._unit_of_work() as uow:
                await uow.saml.keep_logout(flow.id, route.stored())
                exchange = self._recorder.exchange(
                    configured.service,
                    ExchangeKind.LOGOUT_RESPONSE,
                    envelope.binding,
                    reason=_failure(response),
                    message=response.head.id,
                    in_response_to=response.in_response_to or "",
                )
                await self._recorder.record(uow, exchange)
                await uow.commit()
        return await self._next(flow, route) if is_its_browser else Onward(flow.id)

    async def _brought(self, id_: FlowId, browser: Token | None) -> tuple[Flow, bool]:
        """With whether this browser is the one that carries it. Raises `FlowOver`."""
        flow = None
        if browser is not None:
            with suppress(FlowOver):
                flow = await self._flows.find(id_, browser)
        is_its_browser = flow is not None
        flow = flow or await self._lookup.logout(id_)
        if flow is None or not self._goes_on(flow):
            raise FlowOver
        return flow, is_its_browser

    async def sign_out(self, caller: Caller, client: Client, browser: Token, way_back: str | None = None) -> Flow | None:
        """The person signs out here, or at an application, which has its `way_back`. Ends their session and all that was opened from it.
        Returns the sign-out's way through the service providers; None when there are none, or none can be told and the person does not
        stay here. May be repeated.
        """
        async with self._unit_of_work() as uow:
            await uow.accounts.hold(caller.user)
            participants = await uow.saml.participants(caller.session)
            await self._revoke(uow, caller.user, [caller.session], client, caller.user)
            flow = None
            if participants:
                await uow.saml.end([one.session_index for one in participants])
                route = Route(_stops(participants), partial=_untold(participants), way_back=way_back)
                if route.stops or way_back is None:
                    flow = self._flow(route)
                    await uow.flows.add(flow, browser.digest())
            await uow.commit()
        return flow

    async def begun(self, browser: Token) -> Flow | None:
        """The sign-out that somebody has begun in this browser a moment ago, whose form was sent twice."""
        return await self._lookup.sign_out_under_way(browser.digest(), self._clock.now() - MOMENT)

    async def go_on(self, flow: Flow) -> Next:
        """From where a sign-out is. Raises `FlowOver`."""
        if not self._goes_on(flow):
            raise FlowOver
        return await self._next(flow, restored(flow.request))

    async def claim(self, id_: FlowId, browser: Token, session: Token | None) -> Next:
        """From where a sign-out is that the form of another site has begun, for the first browser that comes with it. In one that somebody
        else uses, the others are not told. Raises `FlowOver`.
        """
        flow = await self._lookup.logout(id_)
        if flow is None or flow.completed_at is not None or not await self._lookup.claim(id_, browser.digest(), id_):
            raise FlowOver
        route = restored(flow.request)
        if session is None or not await self._lookup.was_in(session.digest(), route.people):
            route = route.abandoned()
            async with self._unit_of_work() as uow:
                await uow.saml.keep_logout(flow.id, route.stored())
                await uow.commit()
        return await self._next(flow, route)

    async def _ended(
        self,
        configured: Configured,
        request: LogoutRequest,
        envelope: Envelope,
        *,
        caller: Caller | None,
        client: Client,
        browser: Token | None,
    ) -> Next:
        binding, state = envelope.binding, envelope.relay_state
        place = ServiceName(configured.organization_slug, configured.service_slug)
        origin = Origin(place, request.head.id, state, envelope.sent_by)
        key = await self._server_secrets.get(NAME_IDS)
        async with self._unit_of_work() as uow:
            await self._take(uow, configured, request, binding)
            found = await self._meant(uow, configured, request, caller, key)
            others: list[Participant] = []
            # Whoever has more sessions than are found at a time can be signed out again.
            partial = len(found) >= MOST_PARTICIPANTS
            people = _by_person(found)
            for user, sessions in people.items():
                await uow.accounts.hold(user)
                for session in sessions:
                    participants = await uow.saml.participants(session)
                    partial = partial or _untold(participants, but=configured.service)
                    others += [one for one in participants if one.service != configured.service]
                await self._revoke(uow, user, sessions, client, None if caller is None else caller.user)
                await uow.saml.end_sessions_in(configured.service, user)
            await uow.saml.end([one.session_index for one in [*found, *others]])
            unknown = not found and not request.head.signed
            reason, advice = ("", "") if found else _nothing_ended(request)
            exchange = self._recorder.exchange(
                configured.service,
                ExchangeKind.LOGOUT_REQUEST,
                binding,
                reason=reason,
                advice=advice,
                message=request.head.id,
                succeeded=not unknown,
            )
            await self._recorder.record(uow, exchange)
            route = Route(_stops(others), origin, partial=partial, people=tuple(people))
            if browser is not None and (caller is None or caller.user not in people):
                route = route.abandoned()
            flow = self._flow(route)
            await uow.flows.add(flow, unclaimed_digest(flow.id) if browser is None else browser.digest())
            await uow.commit()
        if unknown:
            return await self._answer(flow, origin, Status.UNKNOWN_PRINCIPAL)
        if browser is None and route.current is not None:
            return Onward(flow.id)
        return await self._next(flow, route)

    async def _take(self, uow: UnitOfWork, configured: Configured, request: LogoutRequest, binding: Binding) -> None:
        if await uow.saml.take(configured.service, remembered(self._ids.new(), request.head.id, self._clock.now())):
            return
        refusal = MessageRefused("its ID was used before", "Each request needs an ID of its own", words=_REPEATED)
        exchange = self._recorder.refused(configured.service, ExchangeKind.LOGOUT_REQUEST, binding, refusal, request.head.id)
        await self._recorder.record(uow, exchange)
        await uow.commit()
        raise refusal

    async def _meant(
        self, uow: UnitOfWork, configured: Configured, request: LogoutRequest, caller: Caller | None, key: bytes
    ) -> Sequence[Participant]:
        """A session may have been given several names, of which the latest is kept, but has one index for the service provider."""
        service, name, indexes = configured.service, request.name_id, _indexes(request.session_indexes)
        if request.session_indexes and not indexes:
            return []
        if request.head.signed and indexes:
            # Nobody but this service provider was told the index.
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

    async def _revoke(self, uow: UnitOfWork, user: UserId, sessions: Sequence[SessionId], client: Client, actor: UserId | None) -> None:
        """Called with the account held, and that before the participants are found: whoever opens a session from one of these, or leads it
        to another service provider, has done so already, or waits and finds it ended.
        """
        for session in sessions:
            if await uow.sessions.revoke(session, user):
                organization = await uow.sessions.organization(session)
                await uow.record(session_ended(user, organization, client.actor(actor), session))

    async def _next(self, flow: Flow, route: Route) -> Next:
        """What the browser carries next. Whoever cannot be told any more is passed by."""
        while (stop := route.current) is not None:
            told = await self._tell(flow, route, stop)
            if told is not None:
                return told
            route = route.passed(well=False)
            async with self._unit_of_work() as uow:
                await uow.saml.keep_logout(flow.id, route.stored())
                await uow.commit()
        if route.origin is not None:
            return await self._answer(flow, route.origin, route.status)
        await self._flows.complete(flow)
        return Finished(route.partial, route.way_back)

    async def _tell(self, flow: Flow, route: Route, stop: Stop) -> Told | None:
        configured = await self._lookup.public(stop.place.organization, stop.place.service, fetched=None)
        try:
            configuration, signer = require_usable(configured)
        except (NotFound, OrganizationNotActive):
            return None
        if configured is None or configuration.slo_url is None:
            return None
        if stop.audience not in {None, configuration.entity_id}:
            # Another one has taken its place, and has never heard of the person.
            return None
        message = OurLogoutRequest(
            id=message_id(flow.id, route.done),
            issuer=identity_provider(self._issuer, stop.place.organization, stop.place.service),
            destination=configuration.slo_url,
            issued_at=self._clock.now(),
            name_id=stop.name_id,
            session_index=stop.session_index,
            audience=configuration.entity_id,
        )
        binding = configuration.slo_binding or Binding.REDIRECT
        redirect = binding is Binding.REDIRECT
        written = await self._documents.write_logout(message, opened(self._keyring, signer), relay_state=None, redirect=redirect)
        async with self._unit_of_work() as uow:
            exchange = self._recorder.exchange(
                configured.service,
                ExchangeKind.OUR_LOGOUT_REQUEST,
                binding,
                message=message.id,
                certificate=signer.certificate.id,
            )
            await self._recorder.record(uow, exchange)
            await uow.commit()
        return Told(written if redirect else configuration.slo_url, {} if redirect else {"SAMLRequest": written}, configured.service_name)

    async def _answer(self, flow: Flow, origin: Origin, status: Status) -> Next:
        configured = await self._lookup.public(origin.place.organization, origin.place.service, fetched=None)
        configuration, signer = require_usable(configured)
        assert configured is not None  # noqa: S101 - for the type checker: it is usable
        url = configuration.slo_response_url or configuration.slo_url
        if url is None:
            await self._flows.complete(flow)
            return Finished(status is not Status.SUCCESS)
        message = OurLogoutResponse(
            id=f"_{self._secrets.key_bytes(_ID_BYTES).hex()}",
            issuer=identity_provider(self._issuer, origin.place.organization, origin.place.service),
            destination=url,
            in_response_to=origin.request_id,
            issued_at=self._clock.now(),
            status=status,
        )
        binding = configuration.slo_binding or origin.binding
        redirect = binding is Binding.REDIRECT
        written = await self._documents.write_logout(
            message, opened(self._keyring, signer), relay_state=origin.relay_state, redirect=redirect
        )
        async with self._unit_of_work() as uow:
            await uow.flows.complete(flow.id, self._clock.now())
            exchange = self._recorder.exchange(
                configured.service,
                ExchangeKind.OUR_LOGOUT_RESPONSE,
                binding,
                status=status,
                message=message.id,
                in_response_to=origin.request_id,
                certificate=signer.certificate.id,
            )
            await self._recorder.record(uow, exchange)
            await uow.commit()
        state = {} if origin.relay_state is None else {"RelayState": origin.relay_state}
        return Told(written if redirect else url, {} if redirect else {"SAMLResponse": written, **state}, configured.service_name)

    def _goes_on(self, flow: Flow) -> bool:
        """Also a moment after its end: whoever is sent back twice drops the first answer, and with it where they were to go."""
        return flow.purpose is FlowPurpose.SAML_LOGOUT and (flow.completed_at is None or flow.has_just_ended(self._clock.now()))

    def _flow(self, route: Route) -> Flow:
        return self._flows.made(FlowPurpose.SAML_LOGOUT, route.stored(), Wanted(), FLOW_LIFETIME)

    def _destination(self, place: ServiceName) -> str:
        return f"{identity_provider(self._issuer, place.organization, place.service)}/slo"


_REPEATED: Final = "saml_repeated"


def _nothing_ended(request: LogoutRequest) -> tuple[str, str]:
    """The reason and advice."""
    if not request.head.signed:
        return "nobody of this name is signed in there by this browser", "Sign logout requests, and upload metadata with the certificate"
    told = "SessionIndex" if request.session_indexes else "NameID"
    return f"no session with this {told} was found", "Send the NameID and the SessionIndex of the person's latest assertion"


def _has_name(participant: Participant, name: str, key: bytes) -> bool:
    """Whether the service provider was told this name, or could have been at any time."""
    return participant.name_id.text == name or goes_by(name, participant.user, participant.email, participant.service, key)


def _stops(participants: Sequence[Participant]) -> Sequence[Stop]:
    return tuple(
        Stop(ServiceName(one.organization_slug, one.service_slug), one.name_id, str(one.session_index), one.audience)
        for one in participants
        if one.slo_url is not None
    )


def _untold(participants: Sequence[Participant], *, but: ServiceId | None = None) -> bool:
    """Whether some of a session hear nothing: those without an address for it, and those beyond what is found at a time."""
    return len(participants) >= MOST_PARTICIPANTS or any(one.slo_url is None for one in participants if one.service != but)


def _by_person(participants: Sequence[Participant]) -> dict[UserId, list[SessionId]]:
    """In one order everywhere: two sign-outs of the same people wait for each other, and do not deadlock."""
    people: dict[UserId, list[SessionId]] = {}
    for one in sorted(participants, key=lambda one: one.user):
        people.setdefault(one.user, []).append(one.session)
    return people


def _failure(response: LogoutResponse) -> str:
    """In the flight recorder's words; empty when there is none."""
    if response.well:
        return ""
    if response.partial:
        return "the service provider signed the person out only in part"
    return "the service provider could not sign the person out"


def _indexes(texts: Sequence[str]) -> list[SamlSessionId]:
    """Those that can be ours."""
    found = []
    for text in texts:
        try:
            found.append(SamlSessionId(UUID(text)))
        except ValueError:
            continue
    return found
