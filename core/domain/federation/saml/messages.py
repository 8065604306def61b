"""SAML messages of an application: what they must contain, the logout that visits one service provider after the other, and the
recorder.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from core.domain.federation.saml.configurations import Configuration
from core.domain.formats import Json
from core.domain.identifiers import FlowId, SamlCertificateId, SamlExchangeId, SamlRequestId, ServiceId, UserId
from core.domain.identity.sign_in import ServiceName
from core.domain.saml import (
    ID,
    LONGEST_ID,
    PATIENCE,
    SKEW,
    MessageHead,
    MessageRefused,
    NameId,
    NameIdFormat,
    RequestedContext,
    SamlBinding,
    Status,
    require_sound,
)
from core.frozen import Frozen, replace

# An id is remembered until a repeated request would be too old anyway.
REMEMBERED: Final = PATIENCE + SKEW + timedelta(minutes=5)


class AuthnRequest(Frozen, kw_only=True):
    """A request to an application's identity provider. An adapter reads XML and verifies signatures; this module decides what a message
    must contain.
    """

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
            raise MessageRefused("its AssertionConsumerServiceIndex is not a number", "Omit it, or send one from the uploaded metadata")
        index = int(request.acs_index)
    found = configuration.acs(request.acs_url, index)
    if found is None:
        raise MessageRefused(
            "it requests the response at a URL that is not configured",
            "Set acs_url to the URL in AssertionConsumerServiceURL, or upload metadata that contains it",
        )
    return found


_MESSAGE_ID: Final = re.compile(r"_([0-9a-f]{32})\.([0-9]{1,3})")


class Stop(Frozen):
    """A service provider that the browser still has to tell."""

    place: ServiceName
    name_id: NameId
    session_index: str
    audience: str | None = None
    """The entity id of the service provider that knows the name. None when it is not known."""


class Origin(Frozen):
    """The service provider that asked for the sign-out. It gets the answer at the end."""

    place: ServiceName
    request_id: str
    relay_state: str | None
    binding: SamlBinding = SamlBinding.POST
    """The binding of its request. A sign-out that the release before began does not have it, and is answered by POST."""


class LogoutRoute(Frozen):
    """The progress of a single logout through the service providers of a session. The browser visits one service provider after the other,
    and brings each response back. Our own sessions end before the first service provider is told. Only the browser carries the messages: a
    message names another application of the user, and the user's name there, which the previous service provider must not learn.
    """

    stops: Sequence[Stop]
    origin: Origin | None = None
    """None when the person signed out here."""
    done: int = 0
    partial: bool = False
    """A service provider could not be told, or reported a failure."""
    people: Sequence[UserId] = ()
    """The people whose browser may continue the sign-out, as long as no browser has claimed it."""
    way_back: str | None = None
    """The address to which the application that began the sign-out wants the person sent at the end. None when the person stays here."""

    frames: Sequence[str] = ()
    """The pages of applications that the browser has not loaded yet, each in a frame. They come first: a service provider that does not
    answer stops a sign-out.
    """

    @property
    def current(self) -> Stop | None:
        return self.stops[self.done] if self.done < len(self.stops) else None

    @property
    def status(self) -> Status:
        return Status.PARTIAL_LOGOUT if self.partial else Status.SUCCESS

    def passed(self, *, well: bool) -> "LogoutRoute":
        return replace(self, done=self.done + 1, partial=self.partial or not well)

    def abandoned(self) -> "LogoutRoute":
        """Nobody tells the remaining service providers, or the applications."""
        return replace(self, stops=self.stops[: self.done], partial=self.partial or self.current is not None, frames=())

    def framed(self) -> "LogoutRoute":
        """The browser has loaded the frames."""
        return replace(self, frames=())

    def stored(self) -> Mapping[str, Json]:
        origin = self.origin
        return {
            "people": [str(user) for user in self.people],
            "stops": [
                {
                    "organization": stop.place.organization,
                    "service": stop.place.service,
                    "name_id": stop.name_id.text,
                    "format": stop.name_id.format.value,
                    "session_index": stop.session_index,
                    "audience": stop.audience,
                }
                for stop in self.stops
            ],
            "origin": None
            if origin is None
            else {
                "organization": origin.place.organization,
                "service": origin.place.service,
                "request_id": origin.request_id,
                "relay_state": origin.relay_state,
                "binding": origin.binding.value,
            },
            "done": self.done,
            "partial": self.partial,
            "way_back": self.way_back,
            "frames": list(self.frames),
        }


def restored(kept: Mapping[str, Any]) -> LogoutRoute:
    """Reads the form that `LogoutRoute.stored` made."""
    origin = kept["origin"]
    return LogoutRoute(
        stops=tuple(
            Stop(
                ServiceName(one["organization"], one["service"]),
                NameId(text=one["name_id"], format=NameIdFormat(one["format"])),
                one["session_index"],
                one.get("audience"),
            )
            for one in kept["stops"]
        ),
        origin=None
        if origin is None
        else Origin(
            ServiceName(origin["organization"], origin["service"]),
            origin["request_id"],
            origin["relay_state"],
            SamlBinding(origin.get("binding", SamlBinding.POST)),
        ),
        done=kept["done"],
        partial=kept["partial"],
        people=tuple(UserId(UUID(user)) for user in kept.get("people", ())),
        way_back=kept.get("way_back"),
        frames=tuple(kept.get("frames", ())),
    )


def message_id(flow: FlowId, stop: int) -> str:
    """The id of the request to a service provider. The answer repeats the id, and so leads back to the flow."""
    return f"_{flow.hex}.{stop}"


def flow_and_stop(text: str | None) -> tuple[FlowId, int] | None:
    """Reads an id that `message_id` made. None for any other text."""
    found = _MESSAGE_ID.fullmatch(text or "")
    return None if found is None else (FlowId(UUID(found[1])), int(found[2]))


MOST_EXCHANGES: Final = 50


class ExchangeKind(StrEnum):
    AUTHN_REQUEST = "authn_request"
    RESPONSE = "response"
    LOGOUT_REQUEST = "logout_request"
    LOGOUT_RESPONSE = "logout_response"
    OUR_LOGOUT_REQUEST = "our_logout_request"
    OUR_LOGOUT_RESPONSE = "our_logout_response"


class SamlExchange(Frozen, kw_only=True):
    """A recorded message between an application and its service provider, and why the exchange failed. It has times, IDs and reasons, and
    no data about a user.
    """

    id: SamlExchangeId
    service: ServiceId
    kind: ExchangeKind
    binding: SamlBinding
    succeeded: bool
    status: str = ""
    """The last part of SAML's status code, for a response."""
    reason: str = ""
    """The reason why the message was refused, or ended no session, in words."""
    advice: str = ""
    """The change that would help."""
    message: str = ""
    """The message's id."""
    in_response_to: str = ""
    certificate: SamlCertificateId | None = None
    """The certificate of ours that signed the message."""
    created_at: datetime


def kept_id(text: str) -> str:
    """The id as it is stored, cut to a limit: the sender chooses how long it is. A text that is no valid id is not stored, because it could
    say anything about anybody.
    """
    return text[:LONGEST_ID] if ID.fullmatch(text) else ""
