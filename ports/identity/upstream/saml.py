"""The XML of SAML where Postern is the service provider, and an organization's directory the identity provider."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identity.upstream.saml.examinations import Examination
from core.domain.identity.upstream.saml.metadata import DirectoryCertificate, DirectoryMetadata
from core.domain.identity.upstream.saml.requests import Expected, OurAuthnRequest, ServiceProviderMetadata
from core.domain.saml.entities import KeyPair
from ports.saml.logouts import LogoutDocuments


class ServiceProviderDocuments(LogoutDocuments, Protocol):
    """Every method may raise `Overloaded`, when too many documents wait for the threads that read them. Libraries for XML and its
    signatures implement it. Messages of a sign-out are those of `LogoutDocuments`, with the directory's certificates.
    """

    async def write_authn_request(self, request: OurAuthnRequest, signer: KeyPair, *, relay_state: str | None) -> str:
        """The address that the browser goes to, with the signed request in its query. Raises `RequestDeclined` for text that XML cannot
        contain.
        """

    async def read_response(self, packed: str, expected: Expected) -> Examination:
        """Examines an answer that came by POST. `packed` is the value of `SAMLResponse`, in base64. Never raises for what the answer
        contains: the examination tells.
        """

    async def read_directory(self, document: bytes, known: Sequence[str] = ()) -> DirectoryMetadata:
        """The metadata of a directory. `known` are certificates in PEM that the connection has already; the document's own signature is
        verified with these and no others. Raises `BadRequest`, which says what is missing and what would help.
        """

    async def read_certificate(self, text: str) -> DirectoryCertificate:
        """A certificate that somebody has pasted: PEM, or bare base64 with any line breaks. Raises `BadRequest`, as `read_directory`."""

    async def write_service_provider(self, metadata: ServiceProviderMetadata, signer: KeyPair | None) -> bytes:
        """Our metadata for a connection, signed if there is a signer. Raises `RequestDeclined` for text that XML cannot contain."""
