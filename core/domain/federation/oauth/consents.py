"""Consents: the data that a person allows an application to see, until the person revokes the consent."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from core.domain.federation.oauth.agents import NOTHING_ALLOWED
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused
from core.domain.federation.oauth.resources import OfferedResource, Ticked
from core.domain.federation.oauth.scopes import SCOPES
from core.domain.identifiers import AgentGrantId, ClientId, OrganizationId, ResourceServerId, ServiceId, UserId
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen, replace


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
    """For OpenID Connect, a consent has scopes. For SAML, a consent means that a service provider may learn who the person is."""

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
