"""The metadata of a directory, as far as a connection needs them."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from core.domain.saml.messages import SamlBinding
from core.frozen import Frozen


class DirectoryCertificate(Frozen, kw_only=True):
    """A certificate of the directory: an RSA key of 2048 bits or more, or an elliptic curve of 256 bits or more."""

    pem: str
    fingerprint: str
    """SHA-256, in hexadecimal digits."""
    subject: str
    """For people, to tell certificates apart. Nothing trusts it."""
    valid_from: datetime
    valid_until: datetime


class DirectoryEndpoint(Frozen):
    binding: SamlBinding
    url: str
    response_url: str | None = None
    """The address for answers to a sign-out, if it is another one."""


class DirectoryMetadata(Frozen, kw_only=True):
    entity_id: str
    sign_in: Sequence[DirectoryEndpoint]
    """At least one, and at most one of each binding."""
    sign_out: Sequence[DirectoryEndpoint] = ()
    signing_certificates: Sequence[DirectoryCertificate]
    """At least one. Ended ones are among them: the caller tells of them."""
    encryption_certificates: Sequence[DirectoryCertificate] = ()
    name_id_formats: Sequence[str] = ()
    wants_requests_signed: bool = False
    valid_until: datetime | None = None
    """The earliest end that the document names."""
    cache_for: timedelta | None = None
    """`cacheDuration`: the document should be read again after this time."""
    signed_by: str | None = None
    """The fingerprint of the known certificate that verifies the document's own signature. None when the document is unsigned, or none of
    the known certificates verifies it.
    """
    is_signed: bool = False
    """The document has a signature, whether or not a known certificate verifies it."""

    def address(self, binding: SamlBinding) -> str | None:
        """Where requests for a sign-in go by this binding."""
        return next((one.url for one in self.sign_in if one.binding is binding), None)
