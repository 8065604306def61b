"""The XML of SAML: reading, checking, writing and signing."""

from typing import Protocol

from core.domain.federation.saml.configurations import Understood
from core.domain.federation.saml.messages import (
    AuthnRequest,
    Envelope,
    LogoutResponse,
    OurLogoutRequest,
    OurLogoutResponse,
    OurMetadata,
    Response,
    SamlLogoutRequest,
)
from core.domain.secrets import Secret


class PrivateKey(Protocol):
    """A signing key: a certificate in PEM, and its private key."""

    @property
    def certificate(self) -> str: ...
    @property
    def key(self) -> Secret: ...


class SamlDocuments(Protocol):
    """Methods that read raise `MessageRefused`, and `Overloaded` when too many documents wait for the threads that read them. Libraries for
    XML and its signatures implement it.
    """

    async def read_authn_request(self, envelope: Envelope, certificates: tuple[str, ...]) -> AuthnRequest:
        """`certificates` are the sender's. A signature that none of them verifies is refused. Without certificates, a signature counts as
        none.
        """

    async def read_logout_request(self, envelope: Envelope, certificates: tuple[str, ...]) -> SamlLogoutRequest: ...

    async def read_logout_response(self, envelope: Envelope, certificates: tuple[str, ...]) -> LogoutResponse: ...

    async def read_metadata(self, document: bytes) -> Understood:
        """The metadata of a service provider. Raises `BadRequest`, which says what is missing."""

    async def write_response(
        self, response: Response, signer: PrivateKey, *, sign_assertion: bool, sign_response: bool, encrypt_for: str | None
    ) -> str:
        """The response in base64, for a form. `encrypt_for` is a certificate of the recipient; encryption may raise `Overloaded`, too.
        Raises `RequestDeclined` for text that XML cannot contain.
        """

    async def write_logout(
        self, message: OurLogoutRequest | OurLogoutResponse, signer: PrivateKey, *, relay_state: str | None, redirect: bool
    ) -> str:
        """The message in base64, for a form; with `redirect`, the address with the signed message in its query."""

    async def write_metadata(self, metadata: OurMetadata, signer: PrivateKey | None) -> bytes:
        """Signed, if there is a signer."""


class CertificateMaker(Protocol):
    """A library implements it."""

    async def make(self, common_name: str, serial: int, valid_from: int, valid_until: int) -> tuple[str, Secret]:
        """A new key pair: the self-signed certificate and the private key, both in PEM. The times are seconds since 1970."""
