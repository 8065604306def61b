"""What both sides of SAML share, Postern as identity provider and as service provider: key pairs, entity IDs, certificates and messages."""

import re
from base64 import b64decode
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final

from core.domain.errors import BadRequest, Refusal
from core.domain.secrets import Secret
from core.frozen import Frozen

CERTIFICATE_VALIDITY_YEARS: Final = 3


class CertificateNotMade(Refusal):
    """Making the key pair, or encrypting it, failed."""

    code = "INTERNAL_SERVER_ERROR"
    text = "The certificate could not be made"


def three_years_after(moment: datetime) -> datetime:
    """The same day, three years later. February 29 becomes February 28."""
    try:
        return moment.replace(year=moment.year + CERTIFICATE_VALIDITY_YEARS)
    except ValueError:
        return moment.replace(year=moment.year + CERTIFICATE_VALIDITY_YEARS, day=28)


def due_certificate_warning(ends_at: datetime, warned: int | None, now: datetime, warnings: Sequence[int]) -> int | None:
    """The warning that is due now, in days. None when no warning is due, or when this one has been sent."""
    left = ends_at - now
    due = [days for days in warnings if left <= timedelta(days=days)]
    if not due or left <= timedelta(0):
        return None
    return min(due) if warned is None or min(due) < warned else None


LONGEST_METADATA: Final = 1 << 20
LONGEST_CERTIFICATE: Final = 32 << 10
"""In bytes, for the metadata of one provider."""
# SAML core, section 8.3.6.
LONGEST_ENTITY_ID: Final = 1024
_UNSUITABLE: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff\ufffe\uffff]")


class KeyPair(Frozen):
    """A key pair of ours: the self-signed certificate and the private key, both in PEM."""

    certificate: str
    key: Secret


def entity_id(text: str) -> str:
    """Returns a valid entity ID. Entity IDs are compared letter by letter. Raises `BadRequest`."""
    if not 1 <= len(text) <= LONGEST_ENTITY_ID or _UNSUITABLE.search(text):
        raise BadRequest(
            f"entity_id: 1 to {LONGEST_ENTITY_ID} characters without spaces or control characters",
            words="entity_id_malformed",
            values={"most": LONGEST_ENTITY_ID},
        )
    return text


def fingerprint(pem: str) -> str:
    """Returns the fingerprint of a certificate. Postern checks no issuer of a certificate: it counts because an administrator has uploaded
    it, and only its key and its dates matter.

    The same as `openssl x509 -fingerprint -sha256`, in lower case and without colons.
    """
    return sha256(b64decode("".join(line for line in pem.splitlines() if not line.startswith("-----")))).hexdigest()


LONGEST_MESSAGE: Final = 64 << 10
"""In bytes, after unpacking."""
LONGEST_RELAY_STATE: Final = 4096
"""The standard says 80 bytes, but real service providers put whole addresses into it."""
# The first limits the age of a request, the second the difference of the clocks.
PATIENCE: Final = timedelta(minutes=10)
SKEW: Final = timedelta(minutes=5)
ASSERTION_LIFETIME: Final = timedelta(minutes=5)

# The part of xs:ID that service providers use. Ids go into answers, logs and look-ups.
ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
LONGEST_ID: Final = 256


class NameIdFormat(StrEnum):
    """The form of a person's name in an assertion (SAML core, section 8.3)."""

    EMAIL = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
    UNSPECIFIED = "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified"
    PERSISTENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
    TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"

    @property
    def short(self) -> str:
        return self.value.rpartition(":")[2]


class SamlBinding(StrEnum):
    """The SAML binding of a message (SAML bindings, sections 3.4 and 3.5)."""

    REDIRECT = "redirect"
    POST = "post"


class MessageRefused(BadRequest):
    """A refusal for the person: the sender of the message is not certain, or the message cannot be read. `reason` and `advice` go to the
    flight recorder.
    """

    text = "This SAML message cannot be accepted"

    def __init__(self, reason: str, advice: str = "", *, words: str = "saml_refused") -> None:
        super().__init__(f"This SAML message cannot be accepted: {reason}", words=words)
        self.reason = reason
        self.advice = advice


class Status(StrEnum):
    """The status codes of the second level, under `Requester` or `Responder` (SAML core, section 3.2.2.2)."""

    SUCCESS = "urn:oasis:names:tc:SAML:2.0:status:Success"
    REQUESTER = "urn:oasis:names:tc:SAML:2.0:status:Requester"
    RESPONDER = "urn:oasis:names:tc:SAML:2.0:status:Responder"
    AUTHN_FAILED = "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed"
    INVALID_NAME_ID_POLICY = "urn:oasis:names:tc:SAML:2.0:status:InvalidNameIDPolicy"
    NO_AUTHN_CONTEXT = "urn:oasis:names:tc:SAML:2.0:status:NoAuthnContext"
    NO_PASSIVE = "urn:oasis:names:tc:SAML:2.0:status:NoPassive"
    PARTIAL_LOGOUT = "urn:oasis:names:tc:SAML:2.0:status:PartialLogout"
    REQUEST_DENIED = "urn:oasis:names:tc:SAML:2.0:status:RequestDenied"
    UNKNOWN_PRINCIPAL = "urn:oasis:names:tc:SAML:2.0:status:UnknownPrincipal"
    UNSUPPORTED_BINDING = "urn:oasis:names:tc:SAML:2.0:status:UnsupportedBinding"

    @property
    def last(self) -> str:
        return self.value.rpartition(":")[2]

    @property
    def under(self) -> "Status":
        return Status.REQUESTER if self in _OF_REQUESTER else Status.RESPONDER


_OF_REQUESTER: Final = frozenset({Status.INVALID_NAME_ID_POLICY, Status.UNSUPPORTED_BINDING})


class RequestDeclined(BadRequest):
    """A refusal for the service provider, which gets a status."""

    text = "The SAML request is declined"

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class ContextComparison(StrEnum):
    EXACT = "exact"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    BETTER = "better"


class Envelope(Frozen):
    """A message as it arrived, still packed."""

    binding: SamlBinding
    packed: str
    """The value of the parameter, in base64."""
    relay_state: str | None = None
    signature: str | None = None
    """The signature in the address, for the redirect binding."""
    algorithm: str | None = None
    signed_octets: bytes = b""
    """The octets that the signature in the address covers: the parameters exactly as they were encoded."""
    came_by_form: bool = False
    """The message came in a form of another site, and we have redirected the browser so that it comes in an address."""

    @property
    def sent_by(self) -> SamlBinding:
        """The binding that the sender used."""
        return SamlBinding.POST if self.came_by_form else self.binding


class MessageHead(Frozen, kw_only=True):
    """The head of a message, in the form in which both sides read and write it. An adapter reads XML and verifies signatures.

    The parts that all messages have.
    """

    id: str
    version: str
    issue_instant: str
    destination: str | None
    issuer: str
    signed: bool
    """The message had a signature, and one of the service provider's certificates verifies it."""
    unverified: bool = False
    """The message had a signature, and we have no certificate to verify it with."""


class RequestedContext(Frozen, kw_only=True):
    """The strength of sign-in that the service provider asks for."""

    classes: Sequence[str]
    comparison: str = ContextComparison.EXACT.value


class SamlLogoutRequest(Frozen, kw_only=True):
    head: MessageHead
    name_id: str
    name_id_format: str | None = None
    name_qualifier: str | None = None
    sp_name_qualifier: str | None = None
    session_indexes: Sequence[str] = ()
    not_on_or_after: str | None = None


class LogoutResponse(Frozen, kw_only=True):
    head: MessageHead
    in_response_to: str | None
    status: str
    partial: bool = False
    """The sign-out worked, but not everywhere. The second status level says so (SAML core, section 3.2.2.2)."""

    @property
    def well(self) -> bool:
        return self.status == Status.SUCCESS and not self.partial


class NameId(Frozen, kw_only=True):
    text: str
    format: NameIdFormat


class DirectoryNameId(Frozen, kw_only=True):
    """A person's name as the directory wrote it. All parts together name one person; a sign-out repeats them."""

    text: str
    format: str | None = None
    """The URI. None when the directory named no format, which means unspecified."""
    name_qualifier: str | None = None
    sp_name_qualifier: str | None = None


class OurLogoutRequest(Frozen, kw_only=True):
    id: str
    issuer: str
    destination: str
    issued_at: datetime
    name_id: NameId | DirectoryNameId
    session_index: str | None
    audience: str | None = None
    """The entity id of the service provider that knows the person by this name. A name that a directory gave says that itself."""


class OurLogoutResponse(Frozen, kw_only=True):
    id: str
    issuer: str
    destination: str
    in_response_to: str
    issued_at: datetime
    status: Status


def require_sound(head: MessageHead, destination: str, now: datetime) -> None:
    """The checks of every message, whoever sends it. The sender's name is checked besides. Raises `MessageRefused`."""
    if head.version != "2.0":
        raise MessageRefused("its Version is not 2.0", "Use SAML 2.0")
    if len(head.id) > LONGEST_ID or not ID.fullmatch(head.id):
        raise MessageRefused("its ID is not a valid XML ID", "Send an ID of up to 256 letters, digits, dots, dashes and underscores")
    if head.destination is None and head.signed:
        raise MessageRefused("it is signed, but has no Destination", f"Send Destination {destination}")
    if head.destination is not None and head.destination != destination:
        raise MessageRefused("its Destination is another URL", f"Send Destination {destination}")
    require_recent(head.issue_instant, now)


def require_recent(issue_instant: str, now: datetime) -> None:
    at = moment(issue_instant)
    if at is None:
        raise MessageRefused("its IssueInstant is not a valid UTC time", "Send IssueInstant like 2026-01-31T12:00:00Z")
    if at < now - PATIENCE - SKEW:
        raise MessageRefused("its IssueInstant is too long ago", "Begin again; if it happens each time, set the service provider's clock")
    if at > now + SKEW:
        raise MessageRefused("its IssueInstant is in the future", "Set the service provider's clock")


def require_unexpired(not_on_or_after: str | None, now: datetime) -> None:
    """Checks the end of a logout request. Raises `MessageRefused`."""
    if not_on_or_after is None:
        return
    at = moment(not_on_or_after)
    # Some platforms send the last possible time for “never”. `at + SKEW` would overflow, so SKEW is subtracted from now.
    if at is None or at <= now - SKEW:
        raise MessageRefused("its NotOnOrAfter has passed", "Set the service provider's clock")


_MOMENT: Final = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|[+-]00:00)?")


def moment(text: str) -> datetime | None:
    """A time in UTC (SAML core, section 1.3.3). None for any other text."""
    found = _MOMENT.fullmatch(text)
    if found is None or not text.isascii():
        return None
    try:
        return datetime.fromisoformat(f"{found[1]}+00:00")
    except ValueError:
        return None


def relay_state(text: str | None) -> str | None:
    """The RelayState, unchanged. Raises `MessageRefused` when it is too long."""
    if text is not None and len(text.encode("utf-8", "replace")) > LONGEST_RELAY_STATE:
        raise MessageRefused(
            f"its RelayState has more than {LONGEST_RELAY_STATE} bytes",
            "Keep the state at the service provider, and send a short reference to it",
        )
    return text
