"""Signing in to SAML service providers: from a request, or from here, to the form that brings an assertion to the service provider; or to
what the person has to do first.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from core.domain.errors import BadRequest, Forbidden, NotFound, OrganizationNotActive, ReauthenticationRequired, SecondFactorRequired
from core.domain.federation.authorization_steps import Application, Progress, SignedIn, Step, next_step
from core.domain.federation.authorizations import AuthorizationRefused
from core.domain.federation.consents import Consent, consent_given
from core.domain.federation.saml.certificates import Signer
from core.domain.federation.saml.configurations import Binding
from core.domain.federation.saml.exchanges import Exchange, ExchangeKind
from core.domain.federation.saml.messages import (
    Assertion,
    AuthnRequest,
    Envelope,
    MessageRefused,
    RequestDeclined,
    Response,
    Status,
    relay_state,
    remembered,
    require_acs,
    require_signature,
    require_taken,
)
from core.domain.federation.saml.sign_in import (
    PROVIDER,
    Asked,
    Meeting,
    as_authorization,
    asked,
    attributes,
    declined,
    has_allowed,
    named,
    require_askable,
    require_subject,
    restored,
    session_end,
    stated_class,
    told,
    unasked,
)
from core.domain.identifiers import ConsentId, FlowId, LoginEventId, SamlSessionId, ServiceId, SessionId, UserId
from core.domain.identity.callers import MEMBERS_ONLY, Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, Wanted, claimed_id, unclaimed_digest
from core.domain.identity.login_events import LoginEvent
from core.domain.identity.sign_in import LastLook, ServiceName, login_tried
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.tenancy.roles import BuiltInRole
from core.frozen import Frozen, replace
from core.usecases.federation.saml.configurations import identity_provider, not_usable, opened
from core.usecases.federation.saml.recording import Recorder
from core.usecases.identity.flows import Flows
from ports.clock import Clock
from ports.encryption import KeyRing
from ports.federation.saml.configurations import Entering, SamlLookup
from ports.federation.saml.documents import SamlDocuments
from ports.ids import Ids
from ports.presence import Presence
from ports.secrets import Secrets
from ports.server_secrets import ServerSecrets
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# Of the key that persistent names are made with.
NAME_IDS: Final = "saml_name_ids"
FLOW_LIFETIME: Final = timedelta(minutes=15)
_ID_BYTES: Final = 20
_ADMINISTERS: Final = frozenset({BuiltInRole.OWNER.value, BuiltInRole.ADMIN.value})
_REPLAYED: Final = "its ID was used before"
_BEGIN_AGAIN: Final = "Each request needs an ID of its own; people who reload the page begin again at the service provider"


class Delivered(Frozen):
    """An answer for the service provider, in a form that its person's browser sends."""

    action: str
    fields: Mapping[str, str]
    application: Application
    succeeded: bool


class Unfinished(Frozen):
    """The person has to do something first."""

    step: Step
    asked: Asked
    application: Application
    signed_in: SignedIn | None
    signer: Signer
    tells: Sequence[str] = ()
    """For a person who is asked for consent: what the service provider may learn, in the words of scopes."""


Outcome = Delivered | Unfinished


class Met(Frozen):
    """A service, if there is one, as the person in a browser meets it."""

    place: ServiceName
    meeting: Meeting | None
    caller: Caller | None


class SamlSignIn:
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
        presence: Presence[SessionId],
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
        self._presence = presence
        self._issuer = issuer
        self._clock = clock
        self._ids = ids
        self._secrets = secrets

    async def meet(self, place: ServiceName, browser: Token | None) -> Met:
        """What a request by a browser with this session's cookie needs to know, its caller among it, in one look."""
        digest = None if browser is None else browser.digest()
        meeting, caller = await self._lookup.meet_in_browser(place.organization, place.service, digest)
        if caller is not None:
            self._presence.seen(caller.session, self._clock.now())
        return Met(place, meeting, caller)

    async def arrive(self, met: Met, envelope: Envelope, client: Client, *, waits: bool = False) -> Outcome:
        """A request as a browser brings it. What the person has to do first is kept by `begin`. With `waits`, it is not known yet who is
        signed in: the browser comes back for that. Raises `MessageRefused`, `NotFound` and
        `OrganizationNotActive`, which the person is told.
        """
        place, meeting = met.place, _usable(met.meeting)
        service, request = meeting.application.service, None
        try:
            request = await self._documents.read_authn_request(envelope, tuple(meeting.configuration.signing_certificates))
            acs_url, state = self._checked(request, meeting, place, envelope)
        except MessageRefused as refusal:
            await self._recorder.refuse(
                service, ExchangeKind.AUTHN_REQUEST, envelope.binding, refusal, "" if request is None else request.head.id
            )
            raise
        taking = _Taking(request, envelope.binding)
        try:
            wanted = asked(request, meeting.configuration, acs_url, state)
        except RequestDeclined as refusal:
            refused = Asked(acs_url=acs_url, request_id=request.head.id, relay_state=state)
            return await self._declined(place, refused, meeting, refusal, taking=taking)
        if waits:
            return Unfinished(Step.DONE, wanted, meeting.application, None, _signer(meeting, wanted))
        return await self._settled(place, wanted, meeting, Progress(), client, taking=taking)

    async def begin(
        self, place: ServiceName, unfinished: Unfinished, wanted: Wanted, envelope: Envelope | None, *, browser: Token | None, email: str
    ) -> Flow:
        """Keeps a request while its person does what is left to do. Without `browser`, the first one that comes with the flow's id has it.
        Without `envelope`, the sign-in begins here. Raises `MessageRefused` for a request that was taken before.
        """
        service, request = unfinished.application.service, unfinished.asked
        kept = {**request.stored(), "organization": place.organization, "service": place.service}
        flow = self._flows.made(FlowPurpose.SAML, kept, wanted, FLOW_LIFETIME, service=service, email=email)
        async with self._unit_of_work() as uow:
            if envelope is not None and request.request_id is not None:
                await self._take(uow, service, request.request_id, envelope.binding)
                await self._recorder.record(uow, self._arrived(service, request.request_id, envelope.binding))
            await uow.flows.add(flow, unclaimed_digest(flow.id) if browser is None else browser.digest())
            await uow.commit()
        return flow

    async def claim(self, flow: FlowId, browser: Token) -> FlowId:
        """For a flow that a form of another site has begun: its id in this browser, which may come twice. Raises `FlowOver`."""
        own = claimed_id(flow, browser)
        if not await self._lookup.claim(flow, browser.digest(), own):
            await self._flows.find(own, browser)
        return own

    async def resume(self, flow: Flow, caller: Caller | None, client: Client, *, set_up_later: bool = False) -> Outcome:
        """A request whose person has done something for it. Raises `FlowOver`, and what `arrive` does."""
        place, request, meeting = await self._met_again(flow, caller)
        # Whoever has signed in through the API has no session in this browser, and so no page that could ask them.
        asked_membership = flow.asked_memberships or set_up_later or caller is None
        progress = Progress(flow.created_at, account_chosen=True, set_up_later=set_up_later, asked_membership=asked_membership)
        return await self._settled(place, request, meeting, progress, client, flow=flow)

    async def allow(self, flow: Flow, caller: Caller | None, client: Client, shown: SessionId) -> Outcome:
        """The person of the session that the page has `shown` lets the service provider learn who they are. Anybody else who has signed in
        meanwhile is asked themselves. Raises what `resume` does.
        """
        place, request, meeting = await self._met_again(flow, caller)
        is_theirs = meeting.signed_in is not None and meeting.signed_in.session == shown
        # The page shows the account, and whoever belongs there, or has time to set up a second factor, was asked before it. A form that is
        # sent twice allows it once.
        consented = is_theirs and not flow.repeats
        progress = Progress(flow.created_at, account_chosen=True, consented=consented, set_up_later=True, asked_membership=True)
        return await self._settled(place, request, meeting, progress, client, flow=flow)

    async def deny(self, flow: Flow) -> Delivered:
        """The person may not, or does not want to. Raises `FlowOver`, and what `arrive` does."""
        place, request = kept_request(flow, refusing=True)
        meeting = _usable(await self._lookup.meet(place.organization, place.service, None))
        _require_configured(request, meeting)
        refusal = RequestDeclined(Status.REQUEST_DENIED, "The person may not sign in there, or does not want to")
        return await self._declined(place, request, meeting, refusal, flow=flow, refused=True)

    async def initiate(
        self, place: ServiceName, caller: Caller, client: Client, state: str | None, *, next_certificate: bool = False
    ) -> Outcome:
        """A sign-in that begins here; unfinished only where the person has to allow it. Raises `NotFound`, `OrganizationNotActive`,
        `BadRequest`, and `Forbidden`, `SecondFactorRequired` or `ReauthenticationRequired` where the person has to do something else first.
        """
        meeting = _usable(await self._lookup.meet(place.organization, place.service, caller))
        try:
            request = unasked(meeting.configuration, relay_state(state), next_certificate=next_certificate)
        except MessageRefused as refusal:
            raise BadRequest(f"RelayState: {refusal.reason}") from None
        if next_certificate:
            _require_trial(meeting)
        progress = Progress(set_up_later=True, asked_membership=True)
        outcome = await self._settled(place, request, meeting, progress, client)
        if isinstance(outcome, Delivered) or outcome.step is Step.CONSENT:
            return outcome
        match outcome.step:
            case Step.TURN_AWAY:
                raise Forbidden(MEMBERS_ONLY, words="members_only")
            case Step.SET_UP_SECOND_FACTOR:
                raise SecondFactorRequired
            case _:
                raise ReauthenticationRequired(max_age=meeting.application.session_lifetime or timedelta(0))

    async def waiting(self, state: str) -> "Waiting":
        """A request that waits for a sign-in, for somebody who signs in through the API. Raises `BadRequest`."""
        try:
            flow = FlowId(UUID(state))
        except ValueError:
            raise _not_waiting() from None
        place = await self._lookup.waiting(flow)
        if place is None:
            raise _not_waiting()
        return Waiting(flow, place)

    async def signed_in(self, waiting: "Waiting", user: UserId, session: SessionId) -> str:
        """Somebody has signed in through the API for a request that waits. Returns where their browser goes. Raises `BadRequest` when
        somebody else was quicker.
        """
        async with self._unit_of_work() as uow:
            digest = sha256(f"api {session}".encode()).digest()
            confirmed = await uow.sign_ins.confirm(LastLook(user=user, flow=waiting.flow))
            if confirmed is None or not confirmed.flow_is_open:
                raise _not_waiting()
            await uow.flows.sign_in(waiting.flow, user, digest, session, self._clock.now(), by="")
            await uow.commit()
        return f"{self._issuer}{FINISH}?flow={waiting.flow}"

    async def _met_again(self, flow: Flow, caller: Caller | None) -> tuple[ServiceName, Asked, Meeting]:
        """For a request that a flow has kept: with the person who has signed in for it, or else with the caller."""
        place, request = kept_request(flow)
        meeting = _usable(
            await self._lookup.meet(
                place.organization, place.service, None if flow.session is not None else caller, flow.session or _session(caller)
            )
        )
        _require_configured(request, meeting)
        return place, request, meeting

    def _checked(self, request: AuthnRequest, meeting: Meeting, place: ServiceName, envelope: Envelope) -> tuple[str, str | None]:
        destination = f"{identity_provider(self._issuer, place.organization, place.service)}/sso"
        require_taken(request.head, meeting.configuration, destination, self._clock.now())
        require_signature(request.head, meeting.configuration)
        return require_acs(request, meeting.configuration), relay_state(envelope.relay_state)

    async def _settled(
        self,
        place: ServiceName,
        request: Asked,
        meeting: Meeting,
        progress: Progress,
        client: Client,
        *,
        flow: Flow | None = None,
        taking: "_Taking | None" = None,
    ) -> Outcome:
        application, signed_in, subject = meeting.application, meeting.signed_in, meeting.subject
        signer, allowed = _signer(meeting, request), has_allowed(meeting)
        consents = progress.consented and not allowed
        progress = replace(progress, consented=consents or allowed)
        try:
            require_askable(request, meeting)
            step = next_step(as_authorization(request, application), application, signed_in, progress, self._clock.now())
            if step is Step.CONSENT and flow is not None and flow.repeats:
                # They have taken it back since. This request has led to the service provider already.
                raise FlowOver
            if step is not Step.DONE or signed_in is None or subject is None:
                return Unfinished(step, request, application, signed_in, signer, told(meeting) if step is Step.CONSENT else ())
            require_subject(request, subject, application.service, await self._server_secrets.get(NAME_IDS))
        except AuthorizationRefused as refusal:
            return await self._declined(place, request, meeting, declined(refusal, passive=request.passive), flow=flow, taking=taking)
        except RequestDeclined as refusal:
            return await self._declined(place, request, meeting, refusal, flow=flow, taking=taking)
        try:
            return await self._entered(place, request, meeting, signed_in, client, flow=flow, taking=taking, consents=consents)
        except MessageRefused as refusal:
            if taking is not None:
                kind, request_id = ExchangeKind.AUTHN_REQUEST, taking.request.head.id
                await self._recorder.refuse(application.service, kind, taking.binding, refusal, request_id)
            raise

    async def _entered(
        self,
        place: ServiceName,
        request: Asked,
        meeting: Meeting,
        signed_in: SignedIn,
        client: Client,
        *,
        flow: Flow | None,
        taking: "_Taking | None",
        consents: bool,
    ) -> Delivered:
        """With `consents`, the person has just allowed it."""
        now, application, configuration = self._clock.now(), meeting.application, meeting.configuration
        subject, signer = meeting.subject, _signer(meeting, request)
        assert subject is not None  # noqa: S101 - for the type checker: they have signed in
        assert configuration.entity_id is not None  # noqa: S101 - an enabled configuration has one
        name_id = named(
            request.name_id_format or configuration.format,
            subject,
            application.service,
            await self._server_secrets.get(NAME_IDS),
            self._random(),
        )
        actor = client.actor(subject.user)
        entering = Entering(
            session_index=SamlSessionId(self._ids.new()),
            service=application.service,
            user=subject.user,
            session=signed_in.session,
            name_id=name_id,
            login_event=LoginEventId(self._ids.new()),
            certificate=signer.certificate.id,
            audience=configuration.entity_id,
            acs_url=request.acs_url,
            encryption_certificate=configuration.encryption_certificate,
            address=actor.address,
            user_agent=actor.user_agent,
            at=now,
        )
        event = LoginEvent(
            id=entering.login_event,
            user=subject.user,
            provider=PROVIDER,
            failure=None,
            address=actor.address,
            user_agent=actor.user_agent,
            created_at=now,
            organization=application.organization,
            service=application.service,
        )
        response_id = f"_{self._random()}"
        taken, exchanges = None, []
        if taking is not None:
            taken = remembered(self._ids.new(), taking.request.head.id, now)
            exchanges.append(self._arrived(application.service, taking.request.head.id, taking.binding))
        exchanges.append(
            self._recorder.exchange(
                application.service,
                ExchangeKind.RESPONSE,
                Binding.POST,
                status=Status.SUCCESS,
                message=response_id,
                in_response_to=request.request_id or "",
                certificate=signer.certificate.id,
            )
        )
        async with self._unit_of_work() as uow:
            if flow is not None:
                # Before the flow, as whoever ends both takes them.
                await uow.accounts.hold(subject.user)
                await self._complete(uow, flow)
            if consents:
                consent = Consent(subject.user, application.service, (), now, configuration.entity_id)
                await self._consent(uow, consent, actor)
            entry = await uow.saml.enter(entering, taken)
            if entry is None:
                # Ended, or shut, in the very moment between.
                raise FlowOver
            if entry.is_repeated:
                raise _repeated()
            await uow.record(login_tried(event, None, actor))
            await self._recorder.record(uow, *exchanges)
            await uow.commit()
        response = Response(
            id=response_id,
            issuer=identity_provider(self._issuer, place.organization, place.service),
            destination=request.acs_url,
            in_response_to=request.request_id,
            issued_at=now,
            status=Status.SUCCESS,
            assertion=Assertion(
                id=f"_{self._random()}",
                name_id=name_id,
                audience=configuration.entity_id,
                recipient=request.acs_url,
                in_response_to=request.request_id,
                session_index=str(entry.session_index),
                session_ends_at=session_end(application, signed_in, meeting.session_ends_at or now),
                authenticated_at=signed_in.proved_at,
                context_class=stated_class(signed_in.authenticated_by, request.context),
                attributes=attributes(configuration, application, subject),
            ),
        )
        try:
            return await self._delivered(response, request, meeting)
        except RequestDeclined as refusal:
            return await self._declined(place, request, meeting, refusal)

    async def _declined(
        self,
        place: ServiceName,
        request: Asked,
        meeting: Meeting,
        refusal: RequestDeclined,
        *,
        flow: Flow | None = None,
        taking: "_Taking | None" = None,
        refused: bool = False,
    ) -> Delivered:
        """With `refused`, the person has said no."""
        response = Response(
            id=f"_{self._random()}",
            issuer=identity_provider(self._issuer, place.organization, place.service),
            destination=request.acs_url,
            in_response_to=request.request_id,
            issued_at=self._clock.now(),
            status=refusal.status,
            message=refusal.reason,
        )
        service = meeting.application.service
        async with self._unit_of_work() as uow:
            if flow is not None:
                await self._complete(uow, flow, refused=refused)
            if taking is not None:
                await self._take(uow, service, taking.request.head.id, taking.binding)
                await self._recorder.record(uow, self._arrived(service, taking.request.head.id, taking.binding))
            answered = self._recorder.exchange(
                service,
                ExchangeKind.RESPONSE,
                Binding.POST,
                status=refusal.status,
                reason=refusal.reason,
                message=response.id,
                in_response_to=request.request_id or "",
                certificate=_signer(meeting, request).certificate.id,
            )
            await self._recorder.record(uow, answered)
            await uow.commit()
        return await self._delivered(response, request, meeting)

    async def _complete(self, uow: UnitOfWork, flow: Flow, *, refused: bool = False) -> None:
        if not flow.repeats and not await uow.flows.complete(flow.id, self._clock.now(), refused=refused):
            raise FlowOver

    async def _consent(self, uow: UnitOfWork, consent: Consent, actor: Actor) -> None:
        organization = await uow.consents.give(ConsentId(self._ids.new()), consent)
        if organization is None:
            raise not_usable()
        await uow.record(consent_given(consent, organization, actor))

    async def _take(self, uow: UnitOfWork, service: ServiceId, request_id: str, binding: Binding) -> None:
        """A request counts once. Raises `MessageRefused`."""
        if await uow.saml.take(service, remembered(self._ids.new(), request_id, self._clock.now())):
            return
        refusal = _repeated()
        await self._recorder.record(uow, self._recorder.refused(service, ExchangeKind.AUTHN_REQUEST, binding, refusal, request_id))
        await uow.commit()
        raise refusal

    def _arrived(self, service: ServiceId, request_id: str, binding: Binding) -> Exchange:
        return self._recorder.exchange(service, ExchangeKind.AUTHN_REQUEST, binding, message=request_id)

    async def _delivered(self, response: Response, request: Asked, meeting: Meeting) -> Delivered:
        configuration = meeting.configuration
        packed = await self._documents.write_response(
            response,
            opened(self._keyring, _signer(meeting, request)),
            sign_assertion=configuration.sign_assertions,
            sign_response=configuration.sign_response,
            encrypt_for=configuration.encryption_certificate,
        )
        fields = {"SAMLResponse": packed}
        if request.relay_state is not None:
            fields["RelayState"] = request.relay_state
        return Delivered(request.acs_url, fields, meeting.application, response.status is Status.SUCCESS)

    def _random(self) -> str:
        return self._secrets.key_bytes(_ID_BYTES).hex()


FINISH: Final = "/ui/saml"


class _Taking(Frozen):
    """A request that arrives now, and counts once."""

    request: AuthnRequest
    binding: Binding


class Waiting(Frozen):
    """A request that waits for a sign-in, and the service that it is for."""

    flow: FlowId
    place: ServiceName


def _repeated() -> MessageRefused:
    return MessageRefused(_REPLAYED, _BEGIN_AGAIN, words="saml_repeated")


def _not_waiting() -> BadRequest:
    return BadRequest("saml_state: it has expired, was used, or has not been opened in a browser yet", words="page_out_of_date")


def kept_request(flow: Flow, *, refusing: bool = False) -> tuple[ServiceName, Asked]:
    """Raises `FlowOver` for a flow that has led somewhere already. The same answer may come again, another one may not."""
    if flow.purpose is not FlowPurpose.SAML or (flow.completed_at is not None and not flow.repeats):
        raise FlowOver
    if flow.repeats and flow.refused is not refusing:
        raise FlowOver
    kept: Mapping[str, Any] = flow.request
    return ServiceName(kept["organization"], kept["service"]), restored(kept)


def _session(caller: Caller | None) -> SessionId | None:
    return None if caller is None else caller.session


def _usable(meeting: Meeting | None) -> Meeting:
    if meeting is None or not meeting.configuration.enabled or meeting.signer is None:
        raise not_usable()
    if not meeting.application.organization_is_active:
        raise OrganizationNotActive("The organization of this application is not active", words="application_closed")
    return meeting


def _require_configured(request: Asked, meeting: Meeting) -> None:
    """Raises `FlowOver` when the address for the answer was taken back while the person signed in, or another service provider has come in
    the place of the one that the person was told of.
    """
    if meeting.configuration.acs(request.acs_url, None) is None:
        raise FlowOver
    if request.audience not in {None, meeting.configuration.entity_id}:
        raise FlowOver


def _signer(meeting: Meeting, request: Asked) -> Signer:
    signer = meeting.next_signer if request.next_certificate else meeting.signer
    assert signer is not None  # noqa: S101 - `_usable` and `_require_trial` have looked
    return signer


def _require_trial(meeting: Meeting) -> None:
    if meeting.subject is None or meeting.subject.role not in _ADMINISTERS:
        raise Forbidden
    if meeting.next_signer is None:
        raise NotFound("The service has no next certificate: make one with activate=false first")
