"""Where the configurations of SAML, its certificates and its exchanges are kept."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from core.domain.federation.saml.certificates import Certificate, Signer
from core.domain.federation.saml.configurations import Configuration
from core.domain.federation.saml.exchanges import SamlExchange
from core.domain.federation.saml.messages import NameId, RememberedRequest
from core.domain.federation.saml.sign_in import Meeting
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
from core.domain.json import Json
from core.frozen import Frozen
from ports.tenancy.webhooks import Owner

# As are found at a time.
MOST_PARTICIPANTS: Final = 100


class Configured(Frozen, kw_only=True):
    """A service and what SAML has of it."""

    service: ServiceId
    organization_slug: str
    service_slug: str
    service_name: str
    organization_is_active: bool
    configuration: Configuration | None
    active: Signer | None
    next: Signer | None


class Entering(Frozen, kw_only=True):
    """Somebody who goes to a service provider with an assertion."""

    session_index: SamlSessionId
    """For the first time from this session; afterwards the earlier one stays."""
    service: ServiceId
    user: UserId
    session: SessionId
    name_id: NameId
    login: LoginEvent
    """The device is that of the session."""
    certificate: SamlCertificateId
    audience: str
    acs_url: str
    encryption_certificate: str | None
    at: datetime


class SamlEntry(Frozen):
    """A sign-in to a service provider that is on record."""

    session_index: SamlSessionId
    is_repeated: bool
    """Its request was taken before."""


class Participant(Frozen, kw_only=True):
    """A service provider that somebody was sent to from a session."""

    session_index: SamlSessionId
    session: SessionId
    user: UserId
    email: str
    service: ServiceId
    organization_slug: str
    service_slug: str
    name_id: NameId
    """The latest that the service provider was given in this session."""
    audience: str | None
    """Which one that was, by its entity id. None: it is not known."""
    slo_url: str | None
    """Where it is told of a sign-out. None: it cannot be told, or another one has taken its place."""


class Expiring(Frozen, kw_only=True):
    """A certificate that ends soon, and who is told."""

    certificate: Certificate
    warned_days: int | None
    organization: OrganizationId
    organization_name: str
    service_slug: str
    service_name: str


class SamlStore(Protocol):
    """Part of the unit of work. What belongs to a service's configuration is changed with the service held."""

    async def configuration(self, service: ServiceId) -> Configuration | None: ...

    async def save(self, configuration: Configuration) -> None:
        """Adds it, or changes the one that is there."""

    async def certificates(self, service: ServiceId) -> Sequence[Certificate]: ...

    async def hold_certificates(self, organization: OrganizationId, service_slug: str) -> None:
        """Before the service, as a sign-in takes the two that brings somebody new to the service."""

    async def add_certificate(self, certificate: Certificate, sealed_private_key: bytes) -> None:
        """In place of the one in its state, which is deleted with its key."""

    async def activate_next(self, service: ServiceId) -> Certificate | None:
        """The next certificate becomes the active one, which is deleted with its key. None when there is no next one."""

    async def delete_certificates(self, service: ServiceId) -> None: ...

    async def take(self, service: ServiceId, request: RememberedRequest) -> bool:
        """Remembers a request. False when it was taken before: of many at once, one gets True."""

    async def enter(self, entering: Entering, request: RememberedRequest | None) -> SamlEntry | None:
        """Puts the sign-in to the service on record, and takes its request, if it has one. The caller must not commit a repeated one.
        None: the person, their session or the service is gone, or the service does not let them in; or who the assertion is for, where it
        goes or the keys that sign and encrypt it have changed.
        """

    async def exchanged(self, *exchanges: SamlExchange) -> None:
        """Puts these of one service on record, and drops what is older than the last fifty. Nobody waits for it."""

    async def participants(self, session: SessionId) -> Sequence[Participant]:
        """At most `MOST_PARTICIPANTS` of a session and what was opened from it. Those that can be told of a sign-out have an address for
        it.
        """

    async def participants_indexed(self, service: ServiceId, indexes: Sequence[SamlSessionId]) -> Sequence[Participant]:
        """At most `MOST_PARTICIPANTS` of a service, in those of these sessions that live."""

    async def participants_named(self, service: ServiceId, name_id: str, *, persistent: bool) -> Sequence[Participant]:
        """Of a service, in all living sessions, those whose latest name or address this is: of each of the two at most
        `MOST_PARTICIPANTS`. With `persistent`, also those that may have
        been given it earlier, as their latest name has another format: the caller computes whose it is.
        """

    async def end(self, participants: Sequence[SamlSessionId]) -> None:
        """They are no participants any more."""

    async def end_sessions_in(self, service: ServiceId, user: UserId) -> None:
        """Those that the service's own application was given. After the account is held."""

    async def keep_logout(self, flow: FlowId, request: Mapping[str, Json]) -> None:
        """How far a sign-out has come."""

    async def warned(self, certificate: SamlCertificateId, days: int) -> bool:
        """Of two at once, one gets True."""

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]: ...


class SamlLookup(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def of_service(self, organization: OrganizationId, service_slug: str) -> Configured | None:
        """None when the organization has no such service."""

    async def public(self, organization_slug: str, service_slug: str, *, fetched: datetime | None) -> Configured | None:
        """By its address. With `fetched`, it is put on record that somebody has read its metadata, once a minute at most."""

    async def meet(
        self, organization_slug: str, service_slug: str, caller: Caller | None, session: SessionId | None = None
    ) -> Meeting | None:
        """With the caller, or with the person of a living session. None when there is no such service, or it has no configuration."""

    async def meet_in_browser(
        self, organization_slug: str, service_slug: str, browser_session: bytes | None
    ) -> tuple[Meeting | None, Caller | None]:
        """With whoever is signed in in the browser that has this token: what `meet` and `CallerLookup.find_browser` tell, at once."""

    async def exchanges(self, organization: OrganizationId, service_slug: str) -> Sequence[SamlExchange] | None:
        """Newest first. None when the organization has no such service."""

    async def logout(self, flow: FlowId) -> Flow | None:
        """A sign-out on its way, whoever's browser brings its next message."""

    async def claim(self, flow: FlowId, browser_digest: bytes, becomes: FlowId) -> bool:
        """A flow that a form of another site has begun becomes this browser's, under the id that it `becomes`. Of two browsers, one gets
        True.
        """

    async def sign_out_under_way(self, browser_digest: bytes, since: datetime) -> Flow | None:
        """The latest sign-out of this browser that has begun since, and is on its way through the service providers."""

    async def was_in(self, browser_session: bytes, people: Collection[UserId]) -> bool:
        """Whether one of these people is signed in in the browser that has this token, or was until a moment ago."""

    async def waiting(self, flow: FlowId) -> ServiceName | None:
        """The service of a request that waits for a sign-in, in a browser that has it. None for any other flow."""

    async def expiring(self, before: datetime, limit: int) -> Sequence[Expiring]: ...

    async def all(self) -> Sequence[Configured]:
        """Of all services that have a configuration, by their names. For operators."""
