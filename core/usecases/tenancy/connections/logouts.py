"""Sign-outs that a directory asks for by SAML: they end our sessions that it has opened, and nothing else."""

from datetime import timedelta
from hashlib import sha256
from typing import Final

from core.domain.errors import NotFound
from core.domain.identifiers import ConnectionAnswerId, ConnectionExchangeId, UpstreamProviderId
from core.domain.identity.devices import Client
from core.domain.identity.sessions import session_ended
from core.domain.identity.upstream.connections import ConnectionState, addresses
from core.domain.identity.upstream.directories import ConnectedDirectory, NewAnswer
from core.domain.identity.upstream.directory_visits import name_digest
from core.domain.identity.upstream.exchanges import ConnectionExchange, ConnectionExchangeKind, counted_id, kept_id
from core.domain.saml.entities import KeyPair
from core.domain.saml.messages import (
    Envelope,
    MessageRefused,
    OurLogoutResponse,
    SamlBinding,
    SamlLogoutRequest,
    Status,
    moment,
    relay_state,
    require_recent,
    require_unexpired,
)
from core.frozen import Frozen
from core.usecases.tenancy.connections.answers import DirectoryAnswers
from ports.identity.upstream.connections import ConnectionLookup, ConnectionRecorder
from ports.identity.upstream.saml import ServiceProviderDocuments
from ports.metrics import Metrics
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

# Longer than a request counts, by any clock.
REMEMBERED: Final = timedelta(hours=1)


class DirectoryReply(Frozen):
    """Our answer to the directory, in a form with these `fields`. Without `fields`, the `url` contains the message."""

    url: str
    fields: dict[str, str]
    name: str
    """The directory's, for people."""


class DirectoryLogouts(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ConnectionLookup
    documents: ServiceProviderDocuments
    answers: DirectoryAnswers
    recorder: ConnectionRecorder
    metrics: Metrics
    system: System
    base_url: str

    async def asked(self, provider: UpstreamProviderId, envelope: Envelope, client: Client) -> DirectoryReply | None:
        """Ends the sessions that the request names. Returns our answer, or None for a directory without an address for it. Raises
        `NotFound`, `MessageRefused` and `Overloaded`.
        """
        directory = await self.lookup.directory(provider)
        if directory is None or directory.settings is None or not directory.is_active_organization:
            raise NotFound("There is no such connection", words="connection_unknown")
        # No owner has vouched for who signs at a draft.
        if directory.state is not ConnectionState.ACTIVE:
            raise NotFound("There is no such connection", words="connection_unknown")
        try:
            request = await self._read(directory, envelope)
        except MessageRefused as refusal:
            self._record(directory, reason=refusal.reason, advice=refusal.advice, by_anybody=True)
            raise
        try:
            self._require_usable(directory, request, envelope)
        except MessageRefused as refusal:
            self._record(directory, reason=refusal.reason, advice=refusal.advice)
            raise
        try:
            await self._require_first(directory, request)
        except MessageRefused as refusal:
            # Whoever has seen a request may send it again, also much later.
            self._record(directory, reason=refusal.reason, advice=refusal.advice, by_anybody=True)
            raise
        await self._end(directory, request, client)
        self._record(directory, message=request.head.id)
        return await self._answered(directory, request, envelope)

    async def _read(self, directory: ConnectedDirectory, envelope: Envelope) -> SamlLogoutRequest:
        """The request, signed by the directory. Raises `MessageRefused` for what anybody may have sent."""
        settings = directory.settings
        assert settings is not None  # noqa: S101 - for the type checker
        request = await self.documents.read_logout_request(envelope, settings.trusted)
        if not request.head.signed:
            raise MessageRefused("it is not signed by a known certificate", "Let the directory sign logout requests")
        return request

    def _require_usable(self, directory: ConnectedDirectory, request: SamlLogoutRequest, envelope: Envelope) -> None:
        head, slo = request.head, addresses(self.base_url, directory.id).slo
        if head.issuer != directory.issuer:
            raise MessageRefused("its Issuer is not the connection's entity id", "Set the issuer to the directory's entity id")
        if head.destination != slo:
            raise MessageRefused("its Destination is another address", f"Send Destination {slo}")
        relay_state(envelope.relay_state)

    async def _require_first(self, directory: ConnectedDirectory, request: SamlLogoutRequest) -> None:
        """The request comes in time, and of several with its id it comes first. It is kept in the place of used assertions. Raises
        `MessageRefused`.
        """
        now = self.system.clock.now()
        require_recent(request.head.issue_instant, now)
        require_unexpired(request.not_on_or_after, now)
        used = NewAnswer(
            id=ConnectionAnswerId(self.system.ids.new()),
            provider=directory.id,
            code_digest=self.system.secrets.token().digest(),
            assertion_digest=sha256(f"logout {request.head.id}".encode("utf-8", "surrogatepass")).digest(),
            sealed=None,
            waits_until=now,
            expires_at=now + REMEMBERED,
        )
        if not await self.lookup.keep(used):
            raise MessageRefused("it was taken before", "Let the directory give each logout request an ID of its own")

    async def _end(self, directory: ConnectedDirectory, request: SamlLogoutRequest, client: Client) -> None:
        digest, asked_at = name_digest(directory.id, request.name_id), moment(request.head.issue_instant)
        assert asked_at is not None  # noqa: S101 - for the type checker: `require_recent` has read it
        async with self.unit_of_work() as uow:
            found = await uow.directory_sessions.of_name(directory.id, digest, request.session_indexes, asked_at)
        for session, user in found:
            async with self.unit_of_work() as uow:
                await uow.accounts.hold(user)
                if await uow.sessions.revoke(session, user):
                    await uow.record(session_ended(user, None, client.actor(user), session))
                    await uow.commit()

    async def _answered(self, directory: ConnectedDirectory, request: SamlLogoutRequest, envelope: Envelope) -> DirectoryReply | None:
        settings = directory.settings
        assert settings is not None  # noqa: S101 - for the type checker
        to = settings.slo_response_url or settings.slo_url
        if not to:
            return None
        answer = OurLogoutResponse(
            id=f"_{self.system.secrets.key_bytes(20).hex()}",
            issuer=addresses(self.base_url, directory.id).entity_id,
            destination=to,
            in_response_to=request.head.id,
            issued_at=self.system.clock.now(),
            status=Status.SUCCESS,
        )
        key: KeyPair = self.answers.keys(directory)[0]
        redirects = settings.slo_binding is SamlBinding.REDIRECT
        written = await self.documents.write_logout(answer, key, relay_state=envelope.relay_state, redirect=redirects)
        if redirects:
            return DirectoryReply(written, {}, directory.name)
        fields = {"SAMLResponse": written}
        if envelope.relay_state is not None:
            fields["RelayState"] = envelope.relay_state
        return DirectoryReply(to, fields, directory.name)

    def _record(
        self, directory: ConnectedDirectory, *, reason: str = "", advice: str = "", message: str = "", by_anybody: bool = False
    ) -> None:
        kind, now = ConnectionExchangeKind.LOGOUT, self.system.clock.now()
        self.recorder.record(
            ConnectionExchange(
                id=counted_id(directory.id, kind) if by_anybody else ConnectionExchangeId(self.system.ids.new()),
                provider=directory.id,
                kind=kind,
                succeeded=not reason,
                fault="logout_refused" if reason else "",
                reason=reason,
                advice=advice,
                message=kept_id(message),
                created_at=now,
                last_at=now if by_anybody else None,
            )
        )
        self.metrics.connection_exchanged(kind.value, succeeded=not reason)
