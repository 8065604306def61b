"""Read and write SAML documents. Our documents are signed on the event loop's thread, as tokens are (`adapters/crypto/tokens.py`), because
a signature takes a quarter of a millisecond. Documents of others are read in threads. The modules that use lxml and xmlsec are imported in
a thread as well, with the first document.
"""

import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from adapters.saml.accepted import OF_SERVICE_PROVIDERS, Accepted
from adapters.saml.canonical import Markup
from adapters.saml.threads import XmlThreads
from adapters.saml.writing import write_assertion, write_logout, write_metadata, write_response
from core.domain.federation.saml.configurations import Understood
from core.domain.federation.saml.messages import AuthnRequest, OurMetadata, Response
from core.domain.saml import Envelope, KeyPair, LogoutResponse, OurLogoutRequest, OurLogoutResponse, SamlLogoutRequest

_READING = f"{__package__}.reading"
_SERVICE_PROVIDER_METADATA = f"{__package__}.service_provider_metadata"
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
    """Implements `ports.federation.saml.SamlDocuments`."""

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
