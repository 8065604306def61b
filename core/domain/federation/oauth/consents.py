"""What users allow applications: consents, grants to agents, and the first consent to a new client."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from core.domain.errors import BadRequest
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused, AuthorizationRequest
from core.domain.federation.oauth.client_documents import ClientDocument, KeptDocument, document_service, document_slug, restored
from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.federation.oauth.refusals import RefusalReason
from core.domain.federation.oauth.resources import SCOPES, OfferedResource, Ticked
from core.domain.formats import Json
from core.domain.identifiers import AgentGrantId, ClientId, OrganizationId, ResourceServerId, ServiceId, UserId
from core.domain.identity.sessions import AGENTS_FORBIDDEN, Context
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target
from core.domain.services.clients import placed
from core.domain.services.services import Service, ServiceType
from core.domain.tokens import TokenAlgorithm
from core.frozen import Frozen, replace

USUAL_DAYS: Final = 30
DAYS_OFFERED: Final = (1, 7, USUAL_DAYS, 90)
ONE_API: Final = "resource: an agent acts at one API. Name one, by its identifier"
NOTHING_ALLOWED: Final = "The person has allowed the agent nothing"
NOT_BY_CODE: Final = (
    "People approve an agent at the authorization endpoint, where they choose the API and the expiry, not with a device code"
)


class AgentGrant(Frozen, kw_only=True):
    """What a user allows an agent at one API, until a date, as those who manage the organization see it. An agent is an application that
    acts for users, such as an assistant. It learns nothing about the user, and cannot access Postern.
    """

    id: AgentGrantId
    user: UserId
    email: str
    service: ServiceId
    client: ClientId
    service_slug: str
    service_name: str
    resource: ResourceServerId
    identifier: str
    api: str
    """The name of the API. Empty when the API is gone."""
    scopes: Sequence[str]
    granted_at: datetime
    expires_at: datetime
    last_used_at: datetime | None
    """When it last got a token there. A token lasts five minutes, so the agent acted at most so much later."""


class AgentReach(Frozen, kw_only=True):
    """The grants that somebody asks for: those to one agent, those of one person, or both."""

    service: ServiceId | None = None
    user: UserId | None = None


def bounded(request: AuthorizationRequest, *, is_agent: bool, agents_allowed: bool) -> AuthorizationRequest:
    """The request, as far as its application may ask. An agent may ask for one API with its scopes. Of our own scopes it gets none, so it
    learns nothing about the person. Raises `AuthorizationRefused`.
    """
    if not is_agent:
        return request
    if not agents_allowed:
        raise AuthorizationRefused(AuthorizationErrorCode.ACCESS_DENIED, AGENTS_FORBIDDEN, recorded_as=RefusalReason.AGENTS_FORBIDDEN)
    if len(set(request.resources)) != 1:
        raise AuthorizationRefused(AuthorizationErrorCode.INVALID_TARGET, ONE_API, recorded_as=RefusalReason.AGENT_TARGET)
    return replace(request, scopes=(), signal_scopes=(), resources=request.resources[:1])


def grant_end(days: int | None, now: datetime) -> datetime:
    """The end of a grant that is given now, for one of the numbers of days that the page offers. Raises `BadRequest`."""
    chosen = USUAL_DAYS if days is None else days
    if chosen not in DAYS_OFFERED:
        raise BadRequest(f"days: one of {', '.join(map(str, DAYS_OFFERED))}", words="agent_days")
    return now + timedelta(days=chosen)


def grant_ended(grant: AgentGrant, organization: OrganizationId, actor: Actor) -> Event:
    """Somebody who looks after the organization ended it; the person's own end is `resource_consent_revoked`."""
    details = {
        "service_id": str(grant.service),
        "service_slug": grant.service_slug,
        "service_name": grant.service_name,
        "resource": grant.identifier,
        "user_id": str(grant.user),
    }
    return Event("user.consent.revoked", replace(actor, agent=grant.client), Target("service", str(grant.service)), organization, details)


def all_grants_ended(service: ServiceId, organization: OrganizationId, actor: Actor) -> Event:
    return Event("service.agent.ended", actor, Target("service", str(service)), organization, {"service_id": str(service)})


class ResourceAnswer(Frozen):
    """What a person has said about the scopes of one API."""

    resource: ResourceServerId
    identifier: str
    allowed: Sequence[str]
    withheld: Sequence[str]
    document: bytes | None = None
    """What the document of a metadata client said when the person was asked."""
    id: AgentGrantId | None = None
    """Of what an agent may do."""
    expires_at: datetime | None = None
    """The end of it. None for an application that is no agent."""


class ConsentChoice(Frozen):
    """What a person has chosen on the page that asks for consent."""

    ticked: Ticked = ()
    """The scopes that they left ticked at the APIs."""
    days: int | None = None
    """How long an agent may act."""
    document: bytes | None = None
    """What the page has shown of a metadata client."""
    name: str = ""
    """The name that the page has shown of a client that nobody has placed yet."""
    signals: bytes | None = None
    """What the page has shown of signals."""


NO_CHOICE: Final = ConsentChoice()


class AllowedResource(NamedTuple):
    """An API at which an application can act for a person."""

    id: ResourceServerId
    identifier: str
    name: str
    """Empty when the API is gone."""
    scopes: Sequence[str]
    """What the application may do there, in the words of the API's owners."""
    expires_at: datetime | None = None
    """Until when. None for an application that is no agent."""
    last_used_at: datetime | None = None
    """When an agent last got a token there. A token lasts five minutes, so the agent acted at most so much later."""


class Consent(Frozen):
    """The data that a user allows an application to see, until the user revokes the consent. For OpenID Connect, a consent has scopes. For
    SAML, a consent means that a service provider may learn who the user is.
    """

    user: UserId
    service: ServiceId
    scopes: Sequence[str]
    granted_at: datetime
    saml_entity_id: str | None = None
    """The service provider's entity id. If another service provider replaces this one, the person is asked again."""
    saml_scopes: Sequence[str] = ()
    """What the page said that the service provider may learn. If it shall learn more of the person's own values, the person is asked again.
    """
    resources: Sequence[ResourceAnswer] = ()


class ConsentedService(Frozen):
    """The application that a consent is given to, with its names of that moment."""

    service: ServiceId
    organization: OrganizationId
    slug: str
    name: str


class ApplicationAccess(Frozen, kw_only=True):
    """An application that can act for a person: the person has consented, or the application still has a session of the person."""

    service: ServiceId
    organization: OrganizationId
    organization_name: str
    slug: str
    name: str
    scopes: Sequence[str]
    """The scopes that the person has allowed by OpenID Connect. Empty for an application that never had to ask."""
    granted_at: datetime | None
    saml_entity_id: str | None = None
    """The SAML service provider that may learn who the person is. None when there is no such service provider."""
    sessions: int
    """The number of its living sessions."""
    last_used_at: datetime | None
    document_host: str | None = None
    """The host of the document that describes the application. None for an application that the organization has registered."""
    is_open: bool = False
    """The application is a program that has registered itself."""
    resources: Sequence[AllowedResource] = ()
    """The APIs at which it may act for the person, by their names."""
    agent: ClientId | None = None
    """The client id of an agent. None for an application that is none."""
    logo: str | None = None
    """The path of its picture."""


def widened(earlier: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """The scopes after the person has allowed the asked ones. Scopes add up, so that an application may ask for little at first."""
    return tuple(scope for scope in SCOPES if scope in earlier or scope in asked)


def answer(offered: OfferedResource, asked: Sequence[str], allowed: Sequence[str]) -> ResourceAnswer:
    """The person's word about the asked scopes of an API. It says nothing about scopes that the person cannot have."""
    withheld = [scope.name for scope in offered.held(asked) if scope.name not in allowed]
    return ResourceAnswer(offered.id, offered.identifier, allowed, withheld, offered.document)


def agent_answer(offered: OfferedResource, asked: Sequence[str], ticked: Ticked, id: AgentGrantId, end: datetime) -> ResourceAnswer:  # noqa: A002 - the noun's own word
    """The person's word about an agent, in place of all that they said before: the page shows what the agent may do already beside what is
    asked. Raises `AuthorizationRefused` when nothing is left of what was offered.
    """
    shown = offered.shown_for_agent(asked)
    allowed = [scope.name for scope in shown if (offered.id, scope.name) in ticked]
    if shown and not allowed:
        raise AuthorizationRefused(AuthorizationErrorCode.ACCESS_DENIED, NOTHING_ALLOWED)
    withheld = [scope.name for scope in shown if scope.name not in allowed]
    return ResourceAnswer(offered.id, offered.identifier, allowed, withheld, offered.document, id, end)


def consent_given(consent: Consent, given_to: ConsentedService, actor: Actor) -> Event:
    ends = [resource.expires_at for resource in consent.resources if resource.expires_at is not None]
    given = _event("user.consent.given", consent, given_to, actor)
    return replace(given, details={**given.details, "expires_at": ends[0].isoformat()}) if ends else given


def consent_revoked(access: ApplicationAccess, actor: Actor) -> Event:
    return _event("user.consent.revoked", access, access, replace(actor, agent=access.agent))


def resource_consent_revoked(access: ApplicationAccess, resource: AllowedResource, actor: Actor) -> Event:
    """The application keeps what else it may."""
    details: dict[str, Json] = {**_named(access), "resource": resource.identifier}
    by = replace(actor, agent=access.agent)
    return Event("user.consent.revoked", by, Target("service", str(access.service)), access.organization, details)


def _event(name: str, about: Consent | ApplicationAccess, given_to: ConsentedService | ApplicationAccess, actor: Actor) -> Event:
    details: dict[str, Json] = {
        **_named(given_to),
        "scopes": list(about.scopes),
        "saml_entity_id": about.saml_entity_id,
    }
    if about.resources:
        details["resources"] = [resource.identifier for resource in about.resources]
    return Event(name, actor, Target("service", str(about.service)), given_to.organization, details)


def _named(service: ConsentedService | ApplicationAccess) -> dict[str, Json]:
    return {"service_id": str(service.service), "service_slug": service.slug, "service_name": service.name}


PLACES_OF_PERSON: Final = RateLimit("client_places", burst=20, seconds_per_request=86_400)
"""A person gives so many new clients a place on one day, in all organizations together. The bucket is of one day, and does not fill within
it."""


class UnplacedClient(Frozen, kw_only=True):
    """A client that an organization's rules admit, and that no user has allowed there yet. It has no application, so everything that its
    request leads to stores what the client states about itself. The consent of the first user creates the application, the event and the
    place.
    """

    service: ServiceId
    """The id of the service that the client gets from the first person who allows it."""
    organization: OrganizationId
    organization_slug: str
    api: ResourceServerId
    """The first API that the request names."""
    resources: Sequence[str]
    """The identifiers of all of them."""
    kept: KeptDocument
    """What the client says of itself."""

    @property
    def document(self) -> ClientDocument:
        return self.kept.document

    @property
    def id(self) -> ClientId:
        return placed(self.document.address, self.organization)

    def placed_at(self, now: datetime) -> Service:
        return document_service(self.document, self.organization, self.service, now)

    def registered(self) -> RegisteredClient:
        """The client as the endpoints of clients know it."""
        document, slug = self.document, document_slug(self.document, self.service)
        return RegisteredClient(
            client=ClientId(document.address),
            context=Context(self.organization, self.organization_slug, self.service, slug),
            service=self.service,
            organization=self.organization,
            organization_is_active=True,
            service_type=ServiceType.METADATA,
            id_token_algorithm=TokenAlgorithm.RS256,
            access_token_algorithm=TokenAlgorithm.ES256,
            keys=document.stored_keys,
            has_secret=False,
            secret=None,
            keys_uri=document.keys_uri,
            is_agent=True,
            binds_tokens=document.dpop_bound_access_tokens,
            is_placed=False,
        )


class ArrivedClient(Frozen):
    """A metadata client whose request names APIs of one organization."""

    id: ClientId
    """The placed client id."""
    unplaced: UnplacedClient | None = None
    """None for a client that has a service in the organization."""


def bucket_of_day(person: UserId, now: datetime) -> str:
    return f"{person} {now:%Y-%m-%d}"


def described(kept: KeptDocument) -> Mapping[str, Json]:
    """The form in which a flow or a pushed request keeps what the client says of itself."""
    times = {"fetched_at": kept.fetched_at.isoformat(), "fresh_until": kept.fresh_until.isoformat()}
    return {"document": kept.document.stored(), **times}


def described_before(address: str, stored: Mapping[str, Any] | None) -> KeptDocument | None:
    """Reads the form that `described` made."""
    if stored is None:
        return None
    fetched_at, fresh_until = (datetime.fromisoformat(stored[name]) for name in ("fetched_at", "fresh_until"))
    return KeptDocument(restored(address, stored["document"]), fetched_at, fresh_until)
