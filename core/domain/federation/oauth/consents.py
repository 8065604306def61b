"""Consents: the data that a person allows an application to see, until the person revokes the consent."""

from collections.abc import Sequence
from datetime import datetime

from core.domain.federation.oauth.scopes import SCOPES
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen


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


def widened(earlier: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """The scopes after the person has allowed the asked ones. Scopes add up, so that an application may ask for little at first."""
    return tuple(scope for scope in SCOPES if scope in earlier or scope in asked)


def consent_given(consent: Consent, organization: OrganizationId, actor: Actor) -> Event:
    return _event("user.consent.given", consent, organization, actor)


def consent_revoked(access: ApplicationAccess, actor: Actor) -> Event:
    return _event("user.consent.revoked", access, access.organization, actor)


def _event(name: str, about: Consent | ApplicationAccess, organization: OrganizationId, actor: Actor) -> Event:
    details: dict[str, Json] = {
        "service_id": str(about.service),
        "scopes": list(about.scopes),
        "saml_entity_id": about.saml_entity_id,
    }
    return Event(name, actor, Target("service", str(about.service)), organization, details)
