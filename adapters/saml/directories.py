"""Read and write the documents of SAML where Postern is the service provider of a directory. Everything of others is read in threads."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from adapters.saml.accepted import OF_DIRECTORIES
from adapters.saml.documents import XmlLogoutDocuments, module
from adapters.saml.threads import XmlThreads
from adapters.saml.upstream_writing import write_authn_request, write_service_provider
from core.domain.identity.upstream.connection_tests import Examination
from core.domain.identity.upstream.saml.assertions import (
    DirectoryCertificate,
    DirectoryMetadata,
    Expected,
    OurAuthnRequest,
    ServiceProviderMetadata,
)
from core.domain.saml import KeyPair

_RESPONSES: Final = f"{__package__}.responses"
_METADATA: Final = f"{__package__}.directory_metadata"
_CERTIFICATES: Final = f"{__package__}.certificate_reading"


class XmlServiceProviderDocuments(XmlLogoutDocuments):
    """Implements `ports.identity.upstream.ServiceProviderDocuments`."""

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
