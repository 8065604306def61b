"""Shared Signals: owners enable them, applications create streams, and a dispatcher pushes the events."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from core.domain.errors import BadRequest, Conflict, TokenInvalid, found
from core.domain.federation.oauth.given_sessions import client_named
from core.domain.federation.signal_grants import grant_of
from core.domain.federation.signals import (
    HELD_REASON,
    LONGEST_DESCRIPTION,
    LONGEST_REASON,
    LONGEST_STATE,
    SIGNAL_HEADERS,
    SIGNAL_RULES,
    DueSignal,
    SignalCaller,
    SignalSettings,
    SignalStream,
    StreamMethod,
    StreamStatus,
    asked_events,
    authorization_header,
    goes_to,
    header_context,
    keeps_header,
    manages,
    poll_address,
    push_destination,
    require_pace,
    require_room,
    signal_claims,
    signal_events,
    signal_hosts,
    signals_changed,
    stream_created,
    stream_deleted,
    stream_updated,
    stream_verified,
)
from core.domain.formats import Json
from core.domain.identifiers import ServiceId, SignalStreamId
from core.domain.key_proofs import KeyThumbprint, require_shown
from core.domain.outbound import destination
from core.domain.record.deliveries import DeliveryOutcome, ReceiverKind
from core.domain.record.events import Actor
from core.domain.requests import UNCHANGED, Unchanged
from core.domain.secrets import Secret
from core.domain.services.resource_servers import SIGNAL_SCOPES
from core.domain.tenancy.members import Member
from core.frozen import Frozen, replace
from core.usecases.record import OpenReceiver
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.rights import hold_members, require_owner
from ports.crypto import KeyRing, TokenSigner, TokenVerifier
from ports.federation.signals import ClaimedStream, SignalCallers, SignalStore
from ports.metrics import Metrics
from ports.outbound import Outbound, OutboundRequest
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

NO_SUCH_STREAM = "The application has no such stream"


class ServiceSignals(Frozen):
    """What owners turn on."""

    unit_of_work: UnitOfWorkFactory
    store: SignalStore
    system: System

    async def get(self, member: Member, service_slug: str) -> tuple[SignalSettings | None, Sequence[SignalStream]]:
        """With the streams that the application has made. Raises `NotFound`."""
        kept = found(await self.store.settings(member.organization, service_slug), NO_SUCH_SERVICE)
        return kept.settings, () if kept.settings is None else await self.store.list(kept.service)

    async def turn_on(
        self, member: Member, service_slug: str, events: Collection[str], hosts: Sequence[str], actor: Actor
    ) -> tuple[SignalSettings, Sequence[SignalStream]]:
        """Turns signals on, or changes them. Raises `BadRequest`, `NotFound`, `Forbidden`; and `Conflict` where an API of the organization
        has a scope of ours as its own. Streams to a host that is no longer named end.
        """
        after = SignalSettings(events=signal_events(events), hosts=signal_hosts(hosts))
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            now = self.system.clock.now()
            await require_owner(uow, acting, now)
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            await self._require_scopes_free(uow, member)
            before = await uow.signals.hold_settings(service.id)
            if after != before:
                await uow.signals.turn_on(service.id, after, now)
                await uow.record(signals_changed(before, after, service, actor))
            streams = await uow.signals.list(service.id)
            for stream in streams:
                if not goes_to(stream, after):
                    await uow.signals.delete(stream.id)
                    await uow.record(stream_deleted(stream, member.organization, actor))
            await uow.commit()
        return after, [stream for stream in streams if goes_to(stream, after)]

    async def turn_off(self, member: Member, service_slug: str, actor: Actor) -> None:
        """Ends all streams of the application. Does nothing where signals are off. Raises `NotFound`, `Forbidden`."""
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            await require_owner(uow, acting, self.system.clock.now())
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            before = await uow.signals.hold_settings(service.id)
            if before is not None:
                await uow.signals.turn_off(service.id)
                await uow.record(signals_changed(before, None, service, actor))
            await uow.commit()

    async def pause(self, member: Member, service_slug: str | None, actor: Actor) -> Sequence[SignalStream]:
        """An operator stops what the organization's streams are sent, of one application or of all: what they would be told waits, and no
        application can undo it. Returns the streams that were enabled. Raises `NotFound`.
        """
        return await self._switch(
            member,
            service_slug,
            actor,
            lambda stream: (
                replace(stream, status=StreamStatus.PAUSED, status_reason=HELD_REASON) if stream.status is StreamStatus.ENABLED else stream
            ),
        )

    async def resume(self, member: Member, service_slug: str | None, actor: Actor) -> Sequence[SignalStream]:
        """Streams that `pause` has paused go on. Those that their application has paused stay so. Raises `NotFound`."""
        return await self._switch(
            member,
            service_slug,
            actor,
            lambda stream: replace(stream, status=StreamStatus.ENABLED, status_reason=None) if stream.is_held else stream,
        )

    async def _switch(
        self, member: Member, service_slug: str | None, actor: Actor, switched: Callable[[SignalStream], SignalStream]
    ) -> Sequence[SignalStream]:
        changed: list[SignalStream] = []
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            now = self.system.clock.now()
            await require_owner(uow, acting, now)
            for service in await self._services(uow, member, service_slug):
                await uow.signals.hold_settings(service)
                for before in await uow.signals.list(service):
                    after = switched(before)
                    if after != before:
                        after = replace(after, updated_at=now)
                        await uow.signals.save(after, keeps_header=True, sealed_header=None)
                        await uow.record(stream_updated(before, after, member.organization, actor))
                        changed.append(after)
            await uow.commit()
        return changed

    @staticmethod
    async def _services(uow: UnitOfWork, member: Member, service_slug: str | None) -> Sequence[ServiceId]:
        """By their ids, which is the order in which they are held."""
        if service_slug is None:
            return await uow.signals.services(member.organization)
        return [found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE).id]

    @staticmethod
    async def _require_scopes_free(uow: UnitOfWork, member: Member) -> None:
        """The organization is held, so no API gets such a scope meanwhile. Raises `Conflict`."""
        for server in await uow.resource_servers.list(member.organization):
            for scope in server.scopes:
                if scope.name in SIGNAL_SCOPES:
                    raise Conflict(
                        f"The API {server.identifier} has the scope {scope.name}, which is also a signals scope: rename the API's scope "
                        "first",
                        words="signal_scope_taken",
                        values={"api": server.identifier, "scope": scope.name},
                    )


class StreamRequest(Frozen, kw_only=True):
    """What an application sends of a stream. What it does not name is `UNCHANGED`: nothing of a new stream, what was there before of one
    that is updated.
    """

    method: str | Unchanged = UNCHANGED
    endpoint: str | Unchanged | None = UNCHANGED
    header: str | Unchanged | None = UNCHANGED
    events: Sequence[str] | Unchanged | None = UNCHANGED
    description: str | Unchanged | None = UNCHANGED
    stated: Mapping[str, Json]
    """What only we say of a stream: it must be what we say."""


class SignalStreams(Frozen):
    """The streams of an application, which calls with a token of its own, or with one that a person has granted scopes of signals."""

    unit_of_work: UnitOfWorkFactory
    store: SignalStore
    callers: SignalCallers
    verifier: TokenVerifier
    outbound: Outbound
    keyring: KeyRing
    system: System
    issuer: str

    async def resolve(self, token: str, key: KeyThumbprint | None) -> SignalCaller:
        """The application whose own token this is, or to which a person has granted scopes of signals in the token's session. A token that
        is bound to a key needs this key. Raises `TokenExpired` and `TokenInvalid`, and `Forbidden` where signals are off.
        """
        claims = await self.verifier.verify_issued(token)
        if key is not None or "cnf" in claims:
            require_shown(claims, key)
        issued_at = datetime.fromtimestamp(int(str(claims["iat"])), UTC)
        granted = grant_of(claims)
        if granted is not None:
            caller = await self.callers.find_granted(granted, issued_at)
            if caller is None:
                raise TokenInvalid(detail="the session has ended, or its person may no longer grant signals, or the application has none")
            _ = caller.allowed
            return replace(caller, may_manage=manages(claims))
        client = client_named(claims)
        if client is None or "resource_id" in claims or "service_id" not in claims or claims.get("aud") != f"services:{claims.get('org')}":
            raise TokenInvalid(detail="only an application's own token is accepted here, or one with scopes of signals")
        caller = await self.callers.find(ServiceId(UUID(str(claims["service_id"]))), client, issued_at)
        if caller is None:
            raise TokenInvalid(detail="the application, or its organization, is not active, or the token is older than its credentials")
        _ = caller.allowed
        return replace(caller, may_manage=manages(claims))

    async def list(self, caller: SignalCaller) -> Sequence[SignalStream]:
        return await self.store.list(caller.service)

    async def get(self, caller: SignalCaller, stream: SignalStreamId) -> SignalStream:
        """Raises `NotFound`, also for a stream of another application."""
        return found(await self.store.find(caller.service, stream), NO_SUCH_STREAM)

    async def create(self, caller: SignalCaller, request: StreamRequest, actor: Actor) -> SignalStream:
        """Raises `BadRequest`; and `Forbidden` for a host that no owner has named, and for one stream too many."""
        async with self.unit_of_work() as uow:
            # One new stream of the organization at a time, so that nobody counts past another one.
            await uow.organizations.hold(caller.organization)
            settings = await self._held(uow, caller)
            now = self.system.clock.now()
            stream = SignalStream(
                id=SignalStreamId(self.system.ids.new()),
                service=caller.service,
                method=StreamMethod.POLL,
                endpoint=None,
                has_header=False,
                events=asked_events(None),
                description=None,
                status=StreamStatus.ENABLED,
                status_reason=None,
                granted_by=caller.person,
                created_at=now,
                updated_at=now,
            )
            stream = self._changed(stream, request, settings)
            require_room(*await uow.signals.counts(caller.service, caller.organization))
            for other in await uow.signals.list(caller.service):
                other.require_not_held()
            await uow.signals.add(stream, self._sealed(stream, request))
            await uow.record(stream_created(stream, caller.organization, actor))
            await uow.commit()
        return stream

    async def change(
        self, caller: SignalCaller, stream: SignalStreamId, request: StreamRequest, actor: Actor, *, replaces: bool
    ) -> SignalStream:
        """With `replaces`, what the request does not name is as in a new stream. Raises `NotFound`, and what `create` raises."""
        async with self.unit_of_work() as uow:
            settings = await self._held(uow, caller)
            before = found(await uow.signals.find(caller.service, stream), NO_SUCH_STREAM)
            require_stated(request.stated, before, settings)
            begins = replace(before, events=asked_events(None), description=None) if replaces else before
            after = self._changed(begins, request, settings)
            given = request.header is not UNCHANGED
            keeps = not given and not replaces and before.has_header and keeps_header(before.endpoint, after.endpoint)
            after = replace(after, has_header=keeps or (given and request.header is not None))
            if after != before or given:
                after = replace(after, updated_at=self.system.clock.now())
                await uow.signals.save(after, keeps_header=keeps, sealed_header=self._sealed(after, request))
                await uow.record(stream_updated(before, after, caller.organization, actor))
            await uow.commit()
        return after

    async def delete(self, caller: SignalCaller, stream: SignalStreamId, actor: Actor) -> None:
        """Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            await self._held(uow, caller)
            before = found(await uow.signals.find(caller.service, stream), NO_SUCH_STREAM)
            before.require_not_held()
            await uow.signals.delete(stream)
            await uow.record(stream_deleted(before, caller.organization, actor))
            await uow.commit()

    async def set_status(self, caller: SignalCaller, stream: SignalStreamId, status: str, reason: str | None, actor: Actor) -> SignalStream:
        """Raises `BadRequest`, `NotFound`."""
        if status not in set(StreamStatus):
            raise BadRequest(f"status: one of {', '.join(StreamStatus)}")
        if reason is not None and (len(reason) > LONGEST_REASON or not reason.isprintable()):
            raise BadRequest(f"reason: at most {LONGEST_REASON} printable characters")
        if reason == HELD_REASON:
            raise BadRequest("reason: this one is an operator's")
        async with self.unit_of_work() as uow:
            await self._held(uow, caller)
            before = found(await uow.signals.find(caller.service, stream), NO_SUCH_STREAM)
            before.require_not_held()
            after = replace(before, status=StreamStatus(status), status_reason=reason)
            if after != before:
                after = replace(after, updated_at=self.system.clock.now())
                await uow.signals.save(after, keeps_header=True, sealed_header=None)
                await uow.record(stream_updated(before, after, caller.organization, actor))
            await uow.commit()
        return after

    async def verify(self, caller: SignalCaller, stream: SignalStreamId, state: str | None, actor: Actor) -> None:
        """Queues a proof of life. Raises `BadRequest`, `NotFound`, and `RateLimited` for one too soon after another."""
        if state is not None and len(state) > LONGEST_STATE:
            raise BadRequest(f"state: at most {LONGEST_STATE} characters")
        async with self.unit_of_work() as uow:
            await self._held(uow, caller)
            verified = found(await uow.signals.find(caller.service, stream), NO_SUCH_STREAM)
            now = self.system.clock.now()
            require_pace(await uow.signals.verified_at(stream), now)
            await uow.signals.note_verification(stream, now)
            await uow.record(stream_verified(verified, caller.organization, state, actor))
            await uow.commit()

    async def _held(self, uow: UnitOfWork, caller: SignalCaller) -> SignalSettings:
        """The settings as they are now, for a change: an owner may have turned signals off since the request came. Raises `Forbidden`."""
        caller.require_management()
        return replace(caller, settings=await uow.signals.hold_settings(caller.service)).allowed

    def _changed(self, stream: SignalStream, request: StreamRequest, settings: SignalSettings) -> SignalStream:
        if not isinstance(request.method, Unchanged):
            named = {one.urn: one for one in StreamMethod}.get(request.method)
            if named is None:
                raise BadRequest(f"delivery.method: {' or '.join(one.urn for one in StreamMethod)}")
            given = None if isinstance(request.endpoint, Unchanged) else request.endpoint
            if named is StreamMethod.POLL:
                self._require_pollable(given, stream, request)
            stream = replace(stream, method=named, endpoint=self._pushed_to(given, settings) if named is StreamMethod.PUSH else None)
        if not isinstance(request.events, Unchanged):
            stream = replace(stream, events=asked_events(request.events))
        if not isinstance(request.description, Unchanged):
            text = request.description
            if text is not None and (len(text) > LONGEST_DESCRIPTION or not text.isprintable()):
                raise BadRequest(f"description: at most {LONGEST_DESCRIPTION} printable characters")
            stream = replace(stream, description=text)
        if isinstance(request.header, str):
            stream = replace(stream, has_header=bool(authorization_header(request.header)))
        return stream

    def _pushed_to(self, endpoint: str | None, settings: SignalSettings) -> str:
        if endpoint is None:
            raise BadRequest("delivery.endpoint_url: the URL that receives the signals")
        if not self.outbound.may_call(push_destination(endpoint, settings.hosts)):
            raise BadRequest("delivery.endpoint_url: leads to an IP address that is not public")
        return endpoint

    def _require_pollable(self, endpoint: str | None, stream: SignalStream, request: StreamRequest) -> None:
        """We say where a stream is polled. The application may send it back."""
        if endpoint is not None and endpoint != poll_address(self.issuer, stream.id):
            raise BadRequest("delivery.endpoint_url: the URL of a polled stream is set by Postern")
        if isinstance(request.header, str):
            raise BadRequest("delivery.authorization_header: for streams that are pushed")

    def _sealed(self, stream: SignalStream, request: StreamRequest) -> bytes | None:
        return self.keyring.seal(request.header.encode(), header_context(stream.id)) if isinstance(request.header, str) else None


def require_stated(stated: Mapping[str, Json], stream: SignalStream, settings: SignalSettings) -> None:
    """SSF 1.0, section 8.1.1.3: what only the transmitter says may be sent back, and then it must be what we say. Raises `BadRequest`."""
    said = {"events_delivered": [one.uri for one in stream.delivered(settings)], "events_supported": [one.uri for one in settings.events]}
    for name, value in stated.items():
        expected = said.get(name)
        if expected is None or not isinstance(value, list | tuple) or sorted(map(str, value)) != sorted(expected):
            raise BadRequest(f"{name}: this is not what the stream has")


class SignalReceivers(Frozen):
    """Streams that are pushed to. Implements `core.usecases.record.Receivers`."""

    keyring: KeyRing
    signer: TokenSigner
    metrics: Metrics
    issuer: str
    rules = SIGNAL_RULES
    kind = ReceiverKind.SIGNAL
    attempted = "signal_attempted"
    unreadable = "signal_stream_unreadable"

    def opened(self, claimed: ClaimedStream) -> OpenReceiver[ClaimedStream]:
        sealed = claimed.sealed_header
        secrets = () if sealed is None else (self.keyring.open(sealed, header_context(SignalStreamId(claimed.id))),)
        return OpenReceiver(claimed, destination(claimed.url), tuple(Secret(one.decode()) for one in secrets))

    async def request(self, receiver: OpenReceiver[ClaimedStream], due: DueSignal) -> OutboundRequest:
        token = await self.signer.sign_signal(signal_claims(due, client=receiver.claimed.client, issuer=self.issuer))
        own = {"authorization": receiver.secrets[0].reveal()} if receiver.secrets else {}
        return OutboundRequest(receiver.destination, token.encode(), {**SIGNAL_HEADERS, **own})

    def logged(self, claimed: ClaimedStream, due: DueSignal | None = None) -> Mapping[str, str]:
        stream = {"stream": str(claimed.id)}
        return stream if due is None else {**stream, "delivery": str(due.id), "type": due.type.value}

    def count(self, due: DueSignal, outcome: DeliveryOutcome, seconds: float) -> None:
        self.metrics.signal_attempted(outcome.word, seconds, due.waited.total_seconds())

    async def settled(self, claimed: ClaimedStream, failing_since: datetime | None) -> None:
        """Does nothing: a stream that fails still hears of what comes next."""
