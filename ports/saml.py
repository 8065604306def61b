"""What both sides of SAML share: key pairs, and the messages of a sign-out."""

from typing import Protocol

from core.domain.saml import Envelope, KeyPair, LogoutResponse, OurLogoutRequest, OurLogoutResponse, SamlLogoutRequest
from core.domain.secrets import Secret


class CertificateMaker(Protocol):
    """A library implements it."""

    async def make(self, common_name: str, serial: int, valid_from: int, valid_until: int) -> tuple[str, Secret]:
        """A new key pair: the self-signed certificate and the private key, both in PEM. The times are seconds since 1970."""


class LogoutDocuments(Protocol):
    """Methods that read raise `MessageRefused`, and `Overloaded` when too many documents wait for the threads that read them. Libraries for
    XML and its signatures implement it.
    """

    async def read_logout_request(self, envelope: Envelope, certificates: tuple[str, ...]) -> SamlLogoutRequest:
        """`certificates` are the sender's. A signature that none of them verifies is refused. Without certificates, a signature counts as
        none.
        """

    async def read_logout_response(self, envelope: Envelope, certificates: tuple[str, ...]) -> LogoutResponse: ...

    async def write_logout(
        self, message: OurLogoutRequest | OurLogoutResponse, signer: KeyPair, *, relay_state: str | None, redirect: bool
    ) -> str:
        """The message in base64, for a form; with `redirect`, the address with the signed message in its query."""
