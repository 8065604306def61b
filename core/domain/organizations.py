"""Organizations: the tenants. What one is called, the states that it goes through, and who may move it from one to the next."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.branding import typed_line
from core.domain.errors import BadRequest
from core.domain.events import Actor, Event, Target
from core.domain.identifiers import OrganizationId, TierId, UserId
from core.domain.jobs import NewJob
from core.domain.json import Json
from core.domain.members import Membership
from core.domain.tiers import Tier

SHORTEST_SLUG: Final = 3
LONGEST_SLUG: Final = 50
SHORTEST_NAME: Final = 2
LONGEST_NAME: Final = 100
# Of one person's. Whoever governs the platform must be able to see the others' among them.
MOST_WAITING: Final = 100
# Of one person's, in any state. Where nobody has to approve, nothing else ends a loop that founds.
MOST_OWNED: Final = 1000
# In a person's own list. Anybody can be made a member of many.
MOST_LISTED: Final = 1000
PURGE_JOB: Final = "organization.purge"

_SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
# What our own paths, hosts and tokens are called, or people would take for us.
RESERVED_SLUGS: Final = frozenset(
    {
        *("about", "account", "accounts", "admin", "administrator", "api", "app", "assets", "auth", "billing", "blog", "cdn", "dashboard"),
        *("docs", "documentation", "favicon", "health", "help", "home", "internal", "invitations", "login", "logout", "mail", "metrics"),
        *("new", "oauth", "oidc", "openapi", "organizations", "platform", "postern", "privacy", "register", "root", "saml", "scim"),
        *("security", "service", "services", "settings", "signup", "sso", "static", "status", "support", "system", "ui", "user", "users"),
        *("webhook", "webhooks", "well-known", "www"),
    }
)


class OrganizationStatus(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    id: OrganizationId
    slug: str
    name: str
    status: OrganizationStatus
    tier: TierId
    owner: UserId | None
    max_services: int | None = None
    max_users: int | None = None
    approved_at: datetime | None = None
    approved_by: UserId | None = None
    rejected_at: datetime | None = None
    rejection_reason: str | None = None
    suspended_at: datetime | None = None
    suspension_reason: str | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def is_active(self) -> bool:
        return self.status is OrganizationStatus.ACTIVE


@dataclass(frozen=True, slots=True)
class OrganizationOverview:
    """An organization as one of its members sees it."""

    organization: Organization
    membership: Membership
    member_count: int
    service_count: int
    tier: Tier


def organization_slug(text: str) -> str:
    """Of a new organization; it never changes. Raises `BadRequest`."""
    if not SHORTEST_SLUG <= len(text) <= LONGEST_SLUG or not _SLUG.fullmatch(text):
        raise BadRequest(f"slug: {SHORTEST_SLUG} to {LONGEST_SLUG} of a-z, 0-9 and -, with a letter or digit at both ends")
    if text in RESERVED_SLUGS:
        raise BadRequest("slug: this word is reserved")
    return text


def organization_name(text: str) -> str:
    """As it is kept. Raises `BadRequest`."""
    name = typed_line("name", text)
    if not SHORTEST_NAME <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: {SHORTEST_NAME} to {LONGEST_NAME} characters")
    return name


def organization_created(organization: Organization, actor: Actor) -> Event:
    details = {"slug": organization.slug, "name": organization.name, "status": organization.status.value}
    return _event("organization.created", organization, actor, details)


def organization_renamed(organization: Organization, name: str, actor: Actor) -> Event:
    return _event("organization.updated", organization, actor, {"old_name": organization.name, "name": name})


def organization_deleted(organization: Organization, actor: Actor) -> Sequence[Event]:
    """For its own audit log, which nobody reads any more but whoever audits the installation, and for the platform's."""
    details = {"slug": organization.slug, "name": organization.name}
    target = Target("organization", str(organization.id))
    return [
        Event("organization.deleted", actor, target, of, details, published=False)  # nobody is left to hear it
        for of in (organization.id, None)
    ]


def purge_job(organization: UUID) -> NewJob:
    """Takes away what a deleted organization leaves behind."""
    return NewJob(PURGE_JOB, {"organization": str(organization)})


def _event(name: str, organization: Organization, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("organization", str(organization.id)), organization.id, details)
