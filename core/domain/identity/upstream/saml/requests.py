"""The request that Postern, as a service provider, sends to a directory, and what the answer must say."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from core.domain.identity.upstream.saml.mappings import AttributeMapping
from core.domain.saml.entities import KeyPair
from core.domain.saml.messages import RequestedContext
from core.frozen import Frozen

TOLERANCE: Final = timedelta(seconds=60)
"""How far the directory's clock may be from ours."""
LONGEST_RESPONSE: Final = 256 << 10
"""In bytes, without base64. An answer with a thousand groups has about 100 KiB."""
LONGEST_PACKED_RESPONSE: Final = LONGEST_RESPONSE * 4 // 3 + LONGEST_RESPONSE // 32
"""In base64, whose lines may have ends."""
MOST_CERTIFICATES: Final = 10
MOST_DECRYPTION_KEYS: Final = 4


class OurAuthnRequest(Frozen, kw_only=True):
    """A sign-in that we ask for. The answer repeats `id`, and comes by POST to `acs_url`."""

    id: str
    """An xs:ID: `_` and hexadecimal digits, which nobody can guess."""
    issuer: str
    """Our entity id for this connection."""
    destination: str
    """The directory's address for requests by redirect. It may have a query of its own."""
    acs_url: str
    issued_at: datetime
    force: bool = False
    """The person must prove again who they are (`ForceAuthn`)."""
    passive: bool = False
    """The directory may not show anything to the person (`IsPassive`)."""
    name_id_format: str | None = None
    """The URI of the format. None leaves the choice to the directory, which is what most directories want."""
    context: RequestedContext | None = None


class Expected(Frozen, kw_only=True):
    """What an answer must say to be the answer to one request of one connection."""

    entity_id: str
    """Ours, which must be among the audience."""
    acs_url: str
    """The address at which the answer arrived, exactly as our metadata name it."""
    issuer: str
    """The directory's entity id."""
    certificates: Sequence[str]
    """The directory's certificates for signatures, in PEM. A signature by any of them counts, while the certificate is valid."""
    decryption_keys: Sequence[KeyPair] = ()
    """Our keys for encrypted assertions, the present one first."""
    request_id: str | None
    """The id of the request. None when the browser brought none: then the answer is unsolicited, and nothing behind that is looked at."""
    mapping: AttributeMapping
    now: datetime
    authenticated_since: datetime | None = None
    """The person must have signed in at the directory since then: for `ForceAuthn` and `max_age`. None when any sign-in will do."""
    contexts: Sequence[str] = ()
    """The authentication contexts that the connection asks for. Empty when any will do."""
    compares_contexts: bool = True
    """Whether another context is refused, and not only told."""


class ServiceProviderMetadata(Frozen, kw_only=True):
    """Our metadata for one connection."""

    id: str
    entity_id: str
    acs_url: str
    slo_url: str
    signing_certificates: Sequence[str]
    """The certificate that signs requests, and the next one, if there is one."""
    encryption_certificates: Sequence[str]
    """Directories encrypt for the first. While a certificate changes, both keys must open."""
    name_id_formats: Sequence[str] = ()
    valid_until: datetime | None = None
