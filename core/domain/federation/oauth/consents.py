"""Consents: what a person has allowed an application to learn, until they take it back."""

from collections.abc import Sequence
from datetime import datetime

from core.domain.federation.oauth.scopes import SCOPES
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen


class Consent(Frozen):
    """Scopes, for an application that signs people in by OpenID Connect; or, by SAML, that a service provider learns who they are."""

    user: UserId
    service: ServiceId
    scopes: Sequence[str]
    granted_at: datetime
    saml_entity_id: str | None = None
    """The service provider's. Another one in its place has to ask itself."""


class ApplicationAccess(Frozen, kw_only=True):
    """An application that can act for a person: because they allowed it, or because it still has a session of theirs."""

    service: ServiceId
    organization: OrganizationId
    organization_name: str
    slug: str
    name: str
    scopes: Sequence[str]
    """What the person has allowed by OpenID Connect. Empty for an application that was never to ask."""
    granted_at: datetime | None
    saml_entity_id: str | None = None
    """The SAML service provider that may learn who they are. None: none."""
    sessions: int
    """How many of its sessions are alive."""
    last_used_at: datetime | None


def widened(earlier: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """What is allowed once the person has allowed what was asked: it adds up, so that an application may ask for little at first."""
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
