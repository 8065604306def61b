"""The SAML messages of a service's identity provider, and the rules for requests to it. An adapter reads XML and checks signatures; this
module decides what a message must say.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.federation.saml.configurations import Configuration
from core.domain.identifiers import SamlRequestId
from core.domain.saml.messages import (
    PATIENCE,
    SKEW,
    MessageHead,
    MessageRefused,
    NameId,
    NameIdFormat,
    RequestedContext,
    Status,
    require_sound,
)
from core.frozen import Frozen

# An id is remembered until a repeated request would be too old anyway.
REMEMBERED: Final = PATIENCE + SKEW + timedelta(minutes=5)


class AuthnRequest(Frozen, kw_only=True):
    head: MessageHead
    acs_url: str | None = None
    acs_index: str | None = None
    protocol_binding: str | None = None
    force: bool = False
    passive: bool = False
    name_id_format: str | None = None
    name_qualifier: str | None = None
    subject: str | None = None
    subject_qualifier: str | None = None
    """The service provider that knows the subject by this name."""
    unreadable_subject: bool = False
    """The request names the subject by something else than a NameID."""
    context: RequestedContext | None = None


class RememberedRequest(Frozen):
    """The stored digest of a request's id. It makes a request work only once."""

    id: SamlRequestId
    digest: bytes
    expires_at: datetime


def repeated(advice: str) -> MessageRefused:
    return MessageRefused("its ID was used before", advice, words="saml_repeated")


def remembered(id_: UUID, request: str, now: datetime) -> RememberedRequest:
    return RememberedRequest(SamlRequestId(id_), sha256(request.encode()).digest(), now + REMEMBERED)


class SamlAssertion(Frozen, kw_only=True):
    """The statement about a person who has signed in."""

    id: str
    name_id: NameId
    audience: str
    recipient: str
    in_response_to: str | None
    session_index: str
    session_ends_at: datetime
    authenticated_at: datetime
    context_class: str
    attributes: Mapping[str, Sequence[str]]


class Response(Frozen, kw_only=True):
    """An answer to a request, or an answer that nobody asked for."""

    id: str
    issuer: str
    destination: str
    in_response_to: str | None
    issued_at: datetime
    status: Status
    message: str = ""
    assertion: SamlAssertion | None = None


class OurMetadata(Frozen, kw_only=True):
    id: str
    entity_id: str
    sso_url: str
    slo_url: str
    certificates: Sequence[str]
    name_id_formats: Sequence[NameIdFormat]
    wants_requests_signed: bool
    valid_until: datetime | None


def require_taken(head: MessageHead, configuration: Configuration, destination: str, now: datetime) -> None:
    """The checks of every message, whatever its kind. Raises `MessageRefused`."""
    if head.issuer != configuration.entity_id:
        raise MessageRefused("its Issuer is not the configured entity id", "Set entity_id to what the service provider sends as Issuer")
    require_sound(head, destination, now)


def require_signature(head: MessageHead, configuration: Configuration) -> None:
    """Checks that the request is signed, if the configuration demands it. Raises `MessageRefused`."""
    if configuration.require_signed_requests and not head.signed:
        raise MessageRefused(
            "it is not signed, and the configuration requires it",
            "Sign requests with a certificate that is in the uploaded metadata, or set require_signed_requests to false",
        )


def require_acs(request: AuthnRequest, configuration: Configuration) -> str:
    """The address for the answer, which the configuration must know. Raises `MessageRefused`, since no other address may get an answer."""
    index: int | None = None
    if request.acs_index is not None and request.acs_url is None:
        if not (request.acs_index.isascii() and request.acs_index.isdigit() and len(request.acs_index) <= 5):
            raise MessageRefused("its AssertionConsumerServiceIndex is no number", "Leave it out, or send one of the uploaded metadata")
        index = int(request.acs_index)
    found = configuration.acs(request.acs_url, index)
    if found is None:
        raise MessageRefused(
            "it wants the answer at an address that is not configured",
            "Set acs_url to the address in AssertionConsumerServiceURL, or upload metadata that name it",
        )
    return found
