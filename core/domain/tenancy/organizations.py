"""Organizations, the tenants: their names, their states, and who may move them from one state to the next."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest, OrganizationNotActive
from core.domain.identifiers import OrganizationId, TierId, UserId
from core.domain.jobs import NewJob
from core.domain.json import Json
from core.domain.lines import typed_line
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.members import Membership
from core.domain.tenancy.metadata import Metadata
from core.domain.tenancy.tiers import Tier
from core.frozen import Frozen

SHORTEST_SLUG: Final = 3
LONGEST_SLUG: Final = 50
SHORTEST_NAME: Final = 2
LONGEST_NAME: Final = 100
# The limit of pending organizations that one person has founded. The queue of approvals must stay readable.
MOST_APPROVALS: Final = 100
# The limit of organizations that one person has founded, in any state. If nobody has to approve them, nothing else stops a loop.
MOST_OWNED: Final = 1000
# The limit of a person's own list. Many organizations can make the same person a member.
MOST_LISTED: Final = 1000
PURGE_JOB: Final = "organization.purge"

_SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
# Words that occur in our own paths, hosts and tokens, or that people would mistake for us.
RESERVED_SLUGS: Final = frozenset(
    {
        *("about", "account", "accounts", "admin", "administrator", "api", "app", "assets", "auth", "billing", "blog", "cdn", "dashboard"),
        *("docs", "documentation", "favicon", "health", "help", "home", "internal", "invitations", "login", "logout", "mail", "metrics"),
        *("new", "oauth", "oidc", "openapi", "organizations", "platform", "postern", "privacy", "register", "root", "saml", "scim", "sp"),
        *("security", "service", "services", "settings", "signup", "sso", "static", "status", "support", "system", "ui", "user", "users"),
        *("webhook", "webhooks", "well-known", "www"),
    }
)


class OrganizationStatus(StrEnum):
    """The state of an organization."""

    PENDING = "pending"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    REJECTED = "rejected"


class Organization(Frozen, kw_only=True):
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


class OrganizationOverview(Frozen):
    """An organization as its members see it."""

    organization: Organization
    membership: Membership
    member_count: int
    service_count: int
    tier: Tier
    second_factor_due: datetime | None = None
    """A member who has to set up a second factor can do so until this moment. None when the organization asks nothing of the member."""
    role_name: str = ""
    """The name of the role, if it is one of the organization's own."""
    metadata: Metadata | None = None
    """None in lists."""
    is_unconfirmed_owner: bool = False
    """See `UnconfirmedOwnership`."""


def organization_slug(text: str) -> str:
    """The slug of a new organization. It never changes. Raises `BadRequest`."""
    if not SHORTEST_SLUG <= len(text) <= LONGEST_SLUG or not _SLUG.fullmatch(text):
        message = f"slug: {SHORTEST_SLUG} to {LONGEST_SLUG} of a-z, 0-9 and -, with a letter or digit at both ends"
        raise BadRequest(message, words="slug_malformed", values={"least": SHORTEST_SLUG, "most": LONGEST_SLUG})
    if text in RESERVED_SLUGS:
        raise BadRequest("slug: this word is reserved; choose another", words="slug_reserved")
    return text


def organization_name(text: str) -> str:
    """The name as it is stored. Raises `BadRequest`."""
    name = typed_line("name", text)
    if not SHORTEST_NAME <= len(name) <= LONGEST_NAME:
        message = f"name: {SHORTEST_NAME} to {LONGEST_NAME} characters"
        raise BadRequest(message, words="name_length", values={"least": SHORTEST_NAME, "most": LONGEST_NAME})
    return name


def organization_suspended() -> OrganizationNotActive:
    message = "The organization is suspended: only the owners of the platform may delete it. Ask them"
    return OrganizationNotActive(message, words="organization_suspended")


def require_deletable(organization: Organization) -> None:
    """For its owner. Whoever suspends an organization wants to look into it. Raises `OrganizationNotActive` for a suspended one."""
    if organization.status is OrganizationStatus.SUSPENDED:
        raise organization_suspended()


def organization_created(organization: Organization, actor: Actor) -> Event:
    details = {"slug": organization.slug, "name": organization.name, "status": organization.status.value}
    return _event("organization.created", organization, actor, details)


def organization_renamed(organization: Organization, name: str, actor: Actor) -> Event:
    return _event("organization.updated", organization, actor, {"changed": ["name"], "old_name": organization.name, "name": name})


def organization_metadata_changed(organization: Organization, actor: Actor) -> Event:
    """The event says nothing of what the metadata are."""
    return _event("organization.updated", organization, actor, {"changed": ["metadata"]})


def organization_deleted(organization: Organization, actor: Actor) -> Sequence[Event]:
    """One event for the organization's own log, which only auditors of the installation can still read, and one for the platform's log."""
    details = {"slug": organization.slug, "name": organization.name}
    target = Target("organization", str(organization.id))
    return [Event("organization.deleted", actor, target, of, details) for of in (organization.id, None)]


def purge_job(organization: UUID) -> NewJob:
    """The job that removes what a deleted organization leaves behind."""
    return NewJob(PURGE_JOB, {"organization": str(organization)})


def _event(name: str, organization: Organization, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("organization", str(organization.id)), organization.id, details)
