"""The messages of a sign-out, which both sides of SAML read and write."""

from typing import Protocol

from core.domain.saml.entities import KeyPair
from core.domain.saml.messages import Envelope, LogoutResponse, OurLogoutRequest, OurLogoutResponse, SamlLogoutRequest


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
