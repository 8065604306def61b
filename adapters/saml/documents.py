"""SAML's documents, made and read in threads of their own. The modules that know lxml and xmlsec are imported there, with the first one."""

import sys
from importlib import import_module
from typing import Any

from adapters.saml.threads import XmlThreads
from core.domain.federation.saml.configurations import Understood
from core.domain.federation.saml.messages import (
    AuthnRequest,
    Envelope,
    LogoutRequest,
    LogoutResponse,
    OurLogoutRequest,
    OurLogoutResponse,
    OurMetadata,
    Response,
)
from ports.federation.saml.documents import PrivateKey

_READING = "adapters.saml.reading"
_WRITING = "adapters.saml.writing"


class XmlDocuments:
    """Implements `ports.federation.saml.documents.SamlDocuments`."""

    def __init__(self, threads: XmlThreads) -> None:
        self._threads = threads
        # Whether its module is there: before that, it may just be being imported in a thread.
        self._has_read = False

    async def read_authn_request(self, envelope: Envelope, certificates: tuple[str, ...]) -> AuthnRequest:
        read: AuthnRequest = await self._message("read_authn_request", envelope, certificates)
        return read

    async def read_logout_request(self, envelope: Envelope, certificates: tuple[str, ...]) -> LogoutRequest:
        read: LogoutRequest = await self._message("read_logout_request", envelope, certificates)
        return read

    async def read_logout_response(self, envelope: Envelope, certificates: tuple[str, ...]) -> LogoutResponse:
        read: LogoutResponse = await self._message("read_logout_response", envelope, certificates)
        return read

    async def _message(self, name: str, envelope: Envelope, certificates: tuple[str, ...]) -> Any:
        """A short one without signatures to check is read at once: that takes less time than a thread's beginning."""
        reading = sys.modules.get(_READING) if self._has_read else None
        if reading is not None and not certificates and reading.is_short(envelope):
            return getattr(reading, name)(envelope, ())
        read = await self._threads.run(lambda: getattr(_module(_READING), name)(envelope, certificates))
        self._has_read = True
        return read

    async def read_metadata(self, document: bytes) -> Understood:
        read: Understood = await self._threads.run(lambda: _module(_READING).read_metadata(document))
        return read

    async def write_response(
        self, response: Response, signer: PrivateKey, *, sign_assertion: bool, sign_response: bool, encrypt_for: str | None
    ) -> str:
        written: str = await self._threads.run(
            lambda: _module(_WRITING).write_response(
                response, signer, sign_assertion=sign_assertion, sign_response=sign_response, encrypt_for=encrypt_for
            )
        )
        return written

    async def write_logout(
        self, message: OurLogoutRequest | OurLogoutResponse, signer: PrivateKey, *, relay_state: str | None, redirect: bool
    ) -> str:
        written: str = await self._threads.run(
            lambda: _module(_WRITING).write_logout(message, signer, relay_state=relay_state, redirect=redirect)
        )
        return written

    async def write_metadata(self, metadata: OurMetadata, signer: PrivateKey | None) -> bytes:
        written: bytes = await self._threads.run(lambda: _module(_WRITING).write_metadata(metadata, signer))
        return written


def _module(name: str) -> Any:
    # Import locks make the second thread wait for the first.
    return import_module(name)
