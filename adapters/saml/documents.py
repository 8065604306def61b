"""Reads and writes SAML documents, as identity provider and as service provider."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any, Final, TypeVar

import trio

from adapters.saml.signing import OF_DIRECTORIES, OF_SERVICE_PROVIDERS, Accepted, Markup
from adapters.saml.writing import write_assertion, write_authn_request, write_logout, write_metadata, write_response, write_service_provider
from core.domain.errors import Overloaded
from core.domain.federation.saml.configurations import Understood
from core.domain.federation.saml.messages import AuthnRequest, OurMetadata, Response
from core.domain.identity.upstream.connection_tests import Examination
from core.domain.identity.upstream.saml.assertions import (
    DirectoryCertificate,
    DirectoryMetadata,
    Expected,
    OurAuthnRequest,
    ServiceProviderMetadata,
)
from core.domain.saml import Envelope, KeyPair, LogoutResponse, OurLogoutRequest, OurLogoutResponse, SamlLogoutRequest

T = TypeVar("T")


_THREADS: Final = 2
# Each document takes some milliseconds, so a request behind this many would wait for more than a second.
_MOST_APPROVALS: Final = 400


class XmlThreads:
    """Threads that verify signatures of others, read long messages, and encrypt. Their long steps release the interpreter's lock, so two
    threads use two processors. More threads would take processor time from all other requests. lxml and xmlsec are imported in a thread
    when the first document needs them, since both together cost ten megabytes.
    """

    def __init__(self, *, threads: int = _THREADS, most_waiting: int = _MOST_APPROVALS) -> None:
        self._limiter = trio.CapacityLimiter(threads)
        self._most = threads + most_waiting
        self._inside = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Raises `Overloaded`, and the errors of `work`."""
        if self._inside >= self._most:
            raise Overloaded(retry_after=1, detail="too many SAML documents wait")
        self._inside += 1
        try:
            return await trio.to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._inside -= 1


_READING = f"{__package__}.reading"
_SERVICE_PROVIDER_METADATA = f"{__package__}.metadata"
_ENCRYPTION = f"{__package__}.encryption"


class XmlLogoutDocuments:
    """Implements `ports.saml.LogoutDocuments`, for one kind of sender."""

    def __init__(self, threads: XmlThreads, fair_turn: Callable[[], Awaitable[None]], accepted: Accepted) -> None:
        """`fair_turn` is awaited before each signature, so that other tasks get their turn if they have waited for it."""
        self._threads = threads
        self._fair_turn = fair_turn
        self._accepted = accepted
        # Whether the module for reading is imported completely. `sys.modules` has a module even while a thread still imports it.
        self._has_read = False

    async def read_logout_request(self, envelope: Envelope, certificates: tuple[str, ...]) -> SamlLogoutRequest:
        read: SamlLogoutRequest = await self._message("read_logout_request", envelope, certificates)
        return read

    async def read_logout_response(self, envelope: Envelope, certificates: tuple[str, ...]) -> LogoutResponse:
        read: LogoutResponse = await self._message("read_logout_response", envelope, certificates)
        return read

    async def _message(self, name: str, envelope: Envelope, certificates: tuple[str, ...]) -> Any:
        """Read a message. A short message without signatures to check is read on the event loop, because that takes less time than a call
        in a thread.
        """
        reading = sys.modules.get(_READING) if self._has_read else None
        document = reading.short(envelope) if reading is not None and not certificates else None
        if document is not None:
            return getattr(reading, name)(envelope, (), document, self._accepted)
        read = await self._threads.run(lambda: getattr(module(_READING), name)(envelope, certificates, None, self._accepted))
        self._has_read = True
        return read

    async def write_logout(
        self, message: OurLogoutRequest | OurLogoutResponse, signer: KeyPair, *, relay_state: str | None, redirect: bool
    ) -> str:
        await self._fair_turn()
        return write_logout(message, signer, relay_state=relay_state, redirect=redirect)


class XmlDocuments(XmlLogoutDocuments):
    """Implements `ports.federation.saml.SamlDocuments`.

    Our documents are signed on the event loop's thread, as tokens are (`adapters/crypto/tokens.py`), because a signature takes a quarter of
    a millisecond. Documents of others are read in threads.
    """

    def __init__(self, threads: XmlThreads, fair_turn: Callable[[], Awaitable[None]]) -> None:
        super().__init__(threads, fair_turn, OF_SERVICE_PROVIDERS)

    async def read_authn_request(self, envelope: Envelope, certificates: tuple[str, ...]) -> AuthnRequest:
        read: AuthnRequest = await self._message("read_authn_request", envelope, certificates)
        return read

    async def read_metadata(self, document: bytes) -> Understood:
        read: Understood = await self._threads.run(lambda: module(_SERVICE_PROVIDER_METADATA).read_metadata(document))
        return read

    async def write_response(
        self, response: Response, signer: KeyPair, *, sign_assertion: bool, sign_response: bool, encrypt_for: str | None
    ) -> str:
        await self._fair_turn()
        assertion = write_assertion(response, signer if sign_assertion else None)
        if assertion is not None and encrypt_for is not None:
            assertion = await self._encrypted(assertion, encrypt_for)
        else:
            await self._fair_turn()
        # A response without an assertion is always signed, because nothing else in it is signed.
        return write_response(response, assertion, signer if sign_response or assertion is None else None)

    async def _encrypted(self, assertion: Markup, certificate: str) -> Markup:
        encrypted: Markup = await self._threads.run(lambda: module(_ENCRYPTION).encrypted(assertion, certificate))
        return encrypted

    async def write_metadata(self, metadata: OurMetadata, signer: KeyPair | None) -> bytes:
        await self._fair_turn()
        return write_metadata(metadata, signer)


def module(name: str) -> Any:
    # Python's import lock makes a second thread wait for the first.
    return import_module(name)


_RESPONSES: Final = f"{__package__}.responses"
_METADATA: Final = f"{__package__}.metadata"
_CERTIFICATES: Final = f"{__package__}.metadata"


class XmlServiceProviderDocuments(XmlLogoutDocuments):
    """Implements `ports.identity.upstream.ServiceProviderDocuments`.

    Postern is the service provider of an identity provider. Every document of others is read in threads.
    """

    def __init__(self, threads: XmlThreads, fair_turn: Callable[[], Awaitable[None]]) -> None:
        super().__init__(threads, fair_turn, OF_DIRECTORIES)

    async def write_authn_request(self, request: OurAuthnRequest, signer: KeyPair, *, relay_state: str | None) -> str:
        await self._fair_turn()
        return write_authn_request(request, signer, relay_state=relay_state)

    async def read_response(self, packed: str, expected: Expected) -> Examination:
        read: Examination = await self._threads.run(lambda: module(_RESPONSES).read_response(packed, expected))
        return read

    async def read_directory(self, document: bytes, known: Sequence[str] = ()) -> DirectoryMetadata:
        read: DirectoryMetadata = await self._threads.run(lambda: module(_METADATA).read_directory(document, known))
        return read

    async def read_certificate(self, text: str) -> DirectoryCertificate:
        read: DirectoryCertificate = await self._threads.run(lambda: module(_CERTIFICATES).pasted_certificate(text))
        return read

    async def write_service_provider(self, metadata: ServiceProviderMetadata, signer: KeyPair | None) -> bytes:
        await self._fair_turn()
        return write_service_provider(metadata, signer)
