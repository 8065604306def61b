"""The XML of SAML, as a service's identity provider reads and writes it."""

from typing import Protocol

from core.domain.federation.saml.configurations import Understood
from core.domain.federation.saml.messages import AuthnRequest, OurMetadata, Response
from core.domain.saml.entities import KeyPair
from core.domain.saml.messages import Envelope
from ports.saml.logouts import LogoutDocuments


class SamlDocuments(LogoutDocuments, Protocol):
    """Libraries for XML and its signatures implement it."""

    async def read_authn_request(self, envelope: Envelope, certificates: tuple[str, ...]) -> AuthnRequest:
        """`certificates` are the sender's. A signature that none of them verifies is refused. Without certificates, a signature counts as
        none. Raises `MessageRefused`, and `Overloaded`.
        """

    async def read_metadata(self, document: bytes) -> Understood:
        """The metadata of a service provider. Raises `BadRequest`, which says what is missing."""

    async def write_response(
        self, response: Response, signer: KeyPair, *, sign_assertion: bool, sign_response: bool, encrypt_for: str | None
    ) -> str:
        """The response in base64, for a form. `encrypt_for` is a certificate of the recipient; encryption may raise `Overloaded`, too.
        Raises `RequestDeclined` for text that XML cannot contain.
        """

    async def write_metadata(self, metadata: OurMetadata, signer: KeyPair | None) -> bytes:
        """Signed, if there is a signer."""
