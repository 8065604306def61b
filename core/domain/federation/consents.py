"""Consents: what a person has allowed an application to learn, until they take it back."""

from collections.abc import Sequence
from datetime import datetime

from core.domain.federation.scopes import SCOPES
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen


class Consent(Frozen):
    user: UserId
    service: ServiceId
    scopes: Sequence[str]
    granted_at: datetime


class Access(Frozen, kw_only=True):
    """An application that can act for a person: because they allowed it, or because it still has a session of theirs."""

    service: ServiceId
    organization: OrganizationId
    organization_name: str
    slug: str
    name: str
    scopes: Sequence[str]
    """What the person has allowed. Empty for an application that was never to ask."""
    granted_at: datetime | None
    sessions: int
    """How many of its sessions are alive."""
    last_used_at: datetime | None


def widened(earlier: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """What is allowed once the person has allowed what was asked: it adds up, so that an application may ask for little at first."""
    return tuple(scope for scope in SCOPES if scope in earlier or scope in asked)


def consent_given(consent: Consent, organization: OrganizationId, actor: Actor) -> Event:
    return _event("user.consent.given", consent.service, organization, actor, list(consent.scopes))


def consent_revoked(access: Access, actor: Actor) -> Event:
    return _event("user.consent.revoked", access.service, access.organization, actor, list(access.scopes))


def _event(name: str, service: ServiceId, organization: OrganizationId, actor: Actor, scopes: list[str]) -> Event:
    details = {"service_id": str(service), "scopes": scopes}
    return Event(name, actor, Target("service", str(service)), organization, details)
