"""What a service's identity provider needs of SAML: the store of configurations, certificates and exchanges, and the XML."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from core.domain.federation.saml.configurations import Certificate, Configuration, Signer, Understood
from core.domain.federation.saml.messages import AuthnRequest, OurMetadata, RememberedRequest, Response, SamlExchange
from core.domain.federation.saml.sign_in import Meeting
from core.domain.formats import Json
from core.domain.identifiers import (
    FlowId,
    OrganizationId,
    SamlCertificateId,
    SamlSessionId,
    ServiceId,
    SessionId,
    UserId,
)
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow
from core.domain.identity.login_events import LoginEvent
from core.domain.identity.sign_in import ServiceName
from core.domain.saml import Envelope, KeyPair, NameId
from core.frozen import Frozen
from ports.saml import LogoutDocuments
from ports.tenancy.receivers import Owner

# How many participants one statement finds at most.
MOST_PARTICIPANTS: Final = 100


class Configured(Frozen, kw_only=True):
    """A service with its SAML configuration and certificates."""

    service: ServiceId
    organization_slug: str
    service_slug: str
    service_name: str
    organization_is_active: bool
    configuration: Configuration | None
    active: Signer | None
    next: Signer | None


class Entering(Frozen, kw_only=True):
    """A person who goes to a service provider with an assertion."""

    session_index: SamlSessionId
    """For the first entry from this session. If there is an entry already, its index stays."""
    service: ServiceId
    user: UserId
    session: SessionId
    name_id: NameId
    login: LoginEvent
    """Its device is that of the session."""
    logs: bool = True
    """False when the log has the sign-in already."""
    certificate: SamlCertificateId
    audience: str
    acs_url: str
    encryption_certificate: str | None
    at: datetime


class SamlEntry(Frozen):
    """A sign-in to a service provider that is on record."""

    session_index: SamlSessionId
    is_repeated: bool
    """The request was taken before."""


class Participant(Frozen, kw_only=True):
    """A service provider that a person was sent to from a session."""

    session_index: SamlSessionId
    session: SessionId
    user: UserId
    email: str
    service: ServiceId
    organization_slug: str
    service_slug: str
    name_id: NameId
    """The latest name that the service provider was given in this session."""
    audience: str | None
    """The entity id of the service provider that got the name. None when it is not known."""
    slo_url: str | None
    """The address that is told of a sign-out. None when the service provider cannot be told, or another one has taken its place."""


class Expiring(Frozen, kw_only=True):
    """An active certificate that ends soon or has ended lately, and the organization that is told."""

    certificate: Certificate
    warned_days: int | None
    organization: OrganizationId
    organization_slug: str
    service_slug: str
    service_name: str


class SamlStore(Protocol):
    """All methods need a unit of work. A service's configuration is changed with the service held."""

    async def configuration(self, service: ServiceId) -> Configuration | None: ...

    async def save(self, configuration: Configuration) -> None:
        """Adds the configuration, or changes the one that is there."""

    async def certificates(self, service: ServiceId) -> Sequence[Certificate]: ...

    async def lock_certificates(self, organization: OrganizationId, service_slug: str) -> None:
        """Called before the service is held: a sign-in that brings somebody new to the service takes the two locks in this order."""

    async def add_certificate(self, certificate: Certificate, sealed_private_key: bytes) -> None:
        """Replaces the certificate in the same state, which is deleted with its key."""

    async def activate_next(self, service: ServiceId) -> Certificate | None:
        """Makes the next certificate the active one. The one before is deleted with its key. None when there is no next certificate."""

    async def delete_certificates(self, service: ServiceId) -> None: ...

    async def take(self, service: ServiceId, request: RememberedRequest) -> bool:
        """Remembers a request. False when the request was taken before: of many callers at once, one gets True."""

    async def enter(self, entering: Entering, request: RememberedRequest | None) -> SamlEntry | None:
        """Records the sign-in to the service, and takes its request, if it has one. The caller must not commit a repeated one. None when
        the person, their session or the service is gone, or the service does not let them in. None also when the recipient of the
        assertion, its address, or the keys that sign and encrypt it have changed.
        """

    async def exchanged(self, *exchanges: SamlExchange) -> None:
        """Records these exchanges of one service, and drops those older than the last fifty. Needs no round trip of its own."""

    async def participants(self, session: SessionId) -> Sequence[Participant]:
        """The service providers of a session and of the sessions that were opened from it, at most `MOST_PARTICIPANTS`. Only those that can
        be told of a sign-out have an address for it.
        """

    async def participants_indexed(self, service: ServiceId, indexes: Sequence[SamlSessionId]) -> Sequence[Participant]:
        """The participants of a service that have these indexes and whose sessions live, at most `MOST_PARTICIPANTS`."""

    async def participants_named(self, service: ServiceId, name_id: str, *, persistent: bool) -> Sequence[Participant]:
        """The participants of a service, in all living sessions, whose latest name or address this is: at most `MOST_PARTICIPANTS` of each
        of the two. With `persistent`, also participants that may have been given the name earlier, because their latest name has another
        format: the caller computes the owner of the name.
        """

    async def end(self, participants: Sequence[SamlSessionId]) -> None:
        """Removes these participants."""

    async def end_sessions_in(self, service: ServiceId, user: UserId) -> None:
        """Ends the sessions that the service's own application was given. Called after the account is held."""

    async def keep_logout(self, flow: FlowId, request: Mapping[str, Json]) -> None:
        """Keeps how far a sign-out has come."""

    async def warned(self, certificate: SamlCertificateId, days: int) -> bool:
        """Records the warning. Of two callers at once, one gets True."""

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]: ...


class SamlLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work. `sign_out_under_way` needs a second round trip when there
    is one.
    """

    async def of_service(self, organization: OrganizationId, service_slug: str) -> Configured | None:
        """None when the organization has no such service."""

    async def public(self, organization_slug: str, service_slug: str, *, fetched: datetime | None) -> Configured | None:
        """The service at its public address. With `fetched`, records that somebody has read its metadata, once a minute at most."""

    async def meet(
        self, organization_slug: str, service_slug: str, caller: Caller | None, session: SessionId | None = None
    ) -> Meeting | None:
        """The service with the caller, or with the person of a living session. None when there is no such service, or it has no SAML
        configuration.
        """

    async def meet_in_browser(
        self, organization_slug: str, service_slug: str, browser_session: bytes | None
    ) -> tuple[Meeting | None, Caller | None]:
        """As `meet`, with the person who is signed in in the browser that has this token; and the caller, as `CallerLookup.find_browser`
        tells it.
        """

    async def exchanges(self, organization: OrganizationId, service_slug: str) -> Sequence[SamlExchange] | None:
        """Newest first. None when the organization has no such service."""

    async def logout(self, flow: FlowId) -> Flow | None:
        """A sign-out that is under way, in any browser."""

    async def claim(self, flow: FlowId, browser_digest: bytes, becomes: FlowId) -> bool:
        """A flow that a form of another site has begun becomes this browser's, under the id `becomes`. Of two browsers, one gets True."""

    async def sign_out_under_way(self, browser_digest: bytes, since: datetime) -> Flow | None:
        """The latest sign-out of this browser that has begun since then, and is on its way through the service providers."""

    async def was_in(self, browser_session: bytes, people: Collection[UserId]) -> bool:
        """Whether one of these people is signed in in the browser that has this token, or was until a moment ago."""

    async def waiting(self, flow: FlowId) -> ServiceName | None:
        """The service of a request that waits for a sign-in, in a browser that has claimed the request. None for any other flow."""

    async def expiring(self, after: datetime, before: datetime, limit: int) -> Sequence[Expiring]:
        """Those that end between the two moments: first those that hold, then those that have ended, each by their end."""

    async def all(self) -> Sequence[Configured]:
        """All services that have a SAML configuration, by their names. For operators."""


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
