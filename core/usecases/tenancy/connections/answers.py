"""Processes what identity providers send by SAML: responses to sign-ins, and logout requests."""

import json
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final
from urllib.parse import urlencode

from core.domain.errors import NotFound
from core.domain.identifiers import ConnectionAnswerId, ConnectionExchangeId, UpstreamProviderId
from core.domain.identity.devices import Client
from core.domain.identity.sessions import session_ended
from core.domain.identity.upstream.connection_tests import (
    Check,
    CheckName,
    CheckState,
    ConnectionExchange,
    ConnectionExchangeKind,
    Examination,
    counted_id,
    kept_id,
    of_examination,
)
from core.domain.identity.upstream.connections import (
    ConnectionState,
    addresses,
    former_private_key_context,
    next_private_key_context,
    private_key_context,
)
from core.domain.identity.upstream.directories import (
    WAITS,
    ConnectedDirectory,
    NewAnswer,
    Unsolicited,
    answer_context,
    assertion_digest,
    request_id,
)
from core.domain.identity.upstream.directory_visits import name_digest
from core.domain.identity.upstream.providers import ProviderOff
from core.domain.identity.upstream.saml.assertions import Expected
from core.domain.identity.upstream.sign_in import derived
from core.domain.saml import (
    Envelope,
    KeyPair,
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
from core.domain.secrets import Secret, Token
from core.frozen import Frozen, replace
from core.usecases.identity.upstream.journeys import STATES
from core.usecases.tenancy.connections.trials import ConnectionTests
from ports.crypto import KeyRing, ServerSecrets
from ports.identity.upstream import ConnectionLookup, ConnectionRecorder, ServiceProviderDocuments
from ports.metrics import Metrics
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

_NO_ADDRESS: Final = frozenset({CheckName.ADDRESS})
# An assertion is remembered a little longer than any clock could take it for good.
_SPARE: Final = timedelta(minutes=5)


class DirectoryAnswers(Frozen):
    """Receives SAML responses. The browser posts a response from another site, so without our cookies. Therefore the response is validated
    at once and stored encrypted for the browser that began the sign-in, which returns with a code, as from any other identity provider.
    """

    lookup: ConnectionLookup
    tests: ConnectionTests
    documents: ServiceProviderDocuments
    recorder: ConnectionRecorder
    keyring: KeyRing
    server_secrets: ServerSecrets
    metrics: Metrics
    system: System
    base_url: str

    async def receive(self, provider: UpstreamProviderId, packed: str, relay_state: str) -> str:
        """Takes an answer, whatever it says. Returns the address where the browser goes on. Raises `NotFound`, `ProviderOff`, `Unsolicited`
        for an answer that no browser has left for, and `Overloaded`.
        """
        state = Token(relay_state)
        asked = await self.lookup.asked(provider, state.digest())
        directory = None if asked is None else asked.directory
        if asked is None or directory is None or directory.settings is None or not directory.is_active_organization:
            raise NotFound("Identity provider not found", words="connection_unknown")
        if asked.test is None and not directory.enabled:
            raise ProviderOff(detail="the identity provider is not active, or turned off")
        if asked.was_asked:
            # The same form, sent twice: the browser gets the first answer again.
            return self._back(provider, state=relay_state)
        if not asked.is_asked and asked.test is None:
            self._record_unsolicited(provider)
            raise Unsolicited(provider)
        found = await self._examined(
            directory, state, packed, asked.authenticated_since(self.system.clock.now()), is_test=asked.test is not None
        )
        exchange = ConnectionExchangeId(self.system.ids.new())
        code = self.system.secrets.token()
        found = await self._kept(directory, found, code, exchange, state)
        kind = ConnectionExchangeKind.SIGN_IN if asked.test is None else ConnectionExchangeKind.TEST
        told = of_examination(exchange, provider, kind, found, self.system.clock.now())
        self.recorder.record(told)
        self.metrics.connection_exchanged(kind.value, succeeded=told.succeeded)
        if asked.test is not None:
            await self.tests.finish_by_examination(state, found)
            return self.tests.page(state)
        return self._back(provider, state=relay_state, code=code.reveal())

    async def _examined(
        self, directory: ConnectedDirectory, state: Token, packed: str, since: datetime | None, *, is_test: bool
    ) -> Examination:
        settings = directory.settings
        assert settings is not None  # noqa: S101 - for the type checker
        ours = addresses(self.base_url, directory.id)
        nonce, _ = derived(state, await self.server_secrets.get(STATES))
        expected = Expected(
            entity_id=ours.entity_id,
            acs_url=ours.acs,
            issuer=directory.issuer,
            certificates=settings.trusted,
            decryption_keys=self.keys(directory),
            request_id=request_id(nonce),
            mapping=settings.mapping(directory.profile_mapping),
            now=self.system.clock.now(),
            authenticated_since=since,
            contexts=settings.contexts,
            compares_contexts=settings.compares_contexts or is_test,
        )
        found = await self.documents.read_response(packed, expected)
        if settings.wants_encrypted and found.asserting is not None and not found.encrypted:
            return _unencrypted(found)
        return found

    def keys(self, directory: ConnectedDirectory) -> tuple[KeyPair, ...]:
        """Our key pairs at the directory, the present one first."""
        pairs = []
        places = (
            (directory.key, private_key_context),
            (directory.next_key, next_private_key_context),
            (directory.former_key, former_private_key_context),
        )
        for key, context in places:
            if key is not None:
                opened = self.keyring.open(key.sealed_key, context(directory.id)).decode()
                pairs.append(KeyPair(key.certificate, Secret(opened)))
        return tuple(pairs)

    async def _kept(
        self, directory: ConnectedDirectory, found: Examination, code: Token, exchange: ConnectionExchangeId, state: Token
    ) -> Examination:
        """Stores what the browser will come back for, and decides whether the assertion counts for the first time."""
        nonce, _ = derived(state, await self.server_secrets.get(STATES))
        now, request = self.system.clock.now(), request_id(nonce)
        if found.asserting is not None:
            assertion = found.asserting.assertion
            answer = self._new(directory, code, {"request": request, "asserting": found.asserting.stored()}, assertion_digest(assertion))
            ends = max(assertion.usable_until + _SPARE, answer.waits_until)
            found = found.counted(first=await self.lookup.keep(replace(answer, expires_at=ends)))
        failed = found.failed
        if failed is not None:
            reference = ConnectionExchange(
                id=exchange, provider=directory.id, kind=ConnectionExchangeKind.SIGN_IN, succeeded=False, created_at=now
            ).reference
            refused = {"request": request, "refused": reference, "without_address": failed.name in _NO_ADDRESS}
            await self.lookup.keep(self._new(directory, code, refused, None))
        return found

    def _new(self, directory: ConnectedDirectory, code: Token, content: object, assertion: bytes | None) -> NewAnswer:
        answer, until = ConnectionAnswerId(self.system.ids.new()), self.system.clock.now() + WAITS
        return NewAnswer(
            id=answer,
            provider=directory.id,
            code_digest=code.digest(),
            assertion_digest=assertion,
            sealed=self.keyring.seal(json.dumps(content).encode(), answer_context(answer)),
            waits_until=until,
            expires_at=until,
        )

    def _record_unsolicited(self, provider: UpstreamProviderId) -> None:
        """Anybody can send such an answer, so all are counted in one entry."""
        now = self.system.clock.now()
        self.recorder.record(
            ConnectionExchange(
                id=counted_id(provider, ConnectionExchangeKind.SIGN_IN),
                provider=provider,
                kind=ConnectionExchangeKind.SIGN_IN,
                succeeded=False,
                fault="unsolicited",
                reason="The response does not belong to a sign-in that started here.",
                advice=f"Let people start here: use {self.start(provider)} as the bookmark or as the sign-on URL at the identity provider.",
                created_at=now,
                last_at=now,
            )
        )
        self.metrics.connection_exchanged(ConnectionExchangeKind.SIGN_IN.value, succeeded=False)

    def start(self, provider: UpstreamProviderId) -> str:
        """The address for a bookmark in the directory: it begins a sign-in of ours."""
        return f"{addresses(self.base_url, provider).entity_id}/start"

    def _back(self, provider: UpstreamProviderId, **query: str) -> str:
        return f"{self.base_url}/auth/{provider}/callback?{urlencode(query)}"


_NOT_ENCRYPTED: Final = "The assertion is not encrypted, and this connection accepts only encrypted ones."


def _unencrypted(found: Examination) -> Examination:
    failed = Check(
        name=CheckName.ENCRYPTION,
        state=CheckState.FAILED,
        fault="not_encrypted",
        words=_NOT_ENCRYPTED,
        mend=(
            "Configure the identity provider to encrypt assertions for the certificate in Postern's metadata, or turn off wants_encrypted."
        ),
    )
    checks = tuple(failed if one.name is CheckName.ENCRYPTION else one for one in found.checks)
    return replace(found, checks=checks, asserting=None)


# Longer than a request counts, by any clock.
REMEMBERED: Final = timedelta(hours=1)


class DirectoryReply(Frozen):
    """Our answer to the directory, in a form with these `fields`. Without `fields`, the `url` contains the message."""

    url: str
    fields: dict[str, str]
    name: str
    """The directory's, for people."""


class DirectoryLogouts(Frozen):
    """Receives SAML logout requests. They end the sessions that the same identity provider has opened, and no others."""

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
            raise NotFound("Identity provider not found", words="connection_unknown")
        # No owner has vouched for who signs at a draft.
        if directory.state is not ConnectionState.ACTIVE:
            raise NotFound("Identity provider not found", words="connection_unknown")
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
            raise MessageRefused("it is not signed by a known certificate", "Configure the identity provider to sign logout requests")
        return request

    def _require_usable(self, directory: ConnectedDirectory, request: SamlLogoutRequest, envelope: Envelope) -> None:
        head, slo = request.head, addresses(self.base_url, directory.id).slo
        if head.issuer != directory.issuer:
            raise MessageRefused("its Issuer is not the connection's entity id", "Set the issuer to the directory's entity id")
        if head.destination != slo:
            raise MessageRefused("its Destination is another URL", f"Send Destination {slo}")
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
            raise MessageRefused("it was already used", "Configure the identity provider to use a separate ID for each logout request")

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
