"""Organizations, the tenants: their names, states and metadata, and what a user may do in one."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from core.domain.errors import BadRequest, OrganizationNotActive
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, TierId, UserId
from core.domain.identity.terms import PendingTerms
from core.domain.jobs import NewJob
from core.domain.lines import typed_line
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.domain.requests import UNCHANGED, Checks, RecordChange, Unchanged, checked
from core.domain.tenancy.members import Membership
from core.domain.tenancy.roles import Capability, capabilities_of
from core.domain.tenancy.tiers import Tier
from core.frozen import Frozen

MOST_METADATA_BYTES: Final = 4096
DEEPEST_METADATA: Final = 5

Metadata = Mapping[str, Json]


def checked_metadata(given: Metadata) -> Metadata:
    """Validates metadata: a JSON object that applications store with an organization, an application or a user of an application. Postern
    only stores it. No token contains it, and only those who may change it see it. Raises `BadRequest` for an object that is too large, or
    nested too deeply.
    """
    if _is_far_too_large(given):
        # Its depth and its size in bytes would take longer to find out than the request may.
        raise BadRequest(
            f"metadata: at most {MOST_METADATA_BYTES} bytes of JSON", words="json_too_large", values={"most": MOST_METADATA_BYTES}
        )
    if _depth(given) > DEEPEST_METADATA:
        raise BadRequest(
            f"metadata: at most {DEEPEST_METADATA} objects and lists inside each other",
            words="metadata_nested",
            values={"most": DEEPEST_METADATA},
        )
    size = len(json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
    if size > MOST_METADATA_BYTES:
        raise BadRequest(
            f"metadata: at most {MOST_METADATA_BYTES} bytes of JSON, not {size}",
            words="json_too_large",
            values={"most": MOST_METADATA_BYTES},
        )
    return given


def same_metadata(one: Metadata | None, other: Metadata | None) -> bool:
    """As JSON, where `true` and 1 differ."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _is_far_too_large(given: Metadata) -> bool:
    """Whether even the least that each value takes in JSON is too much. Looks at no more values than may be there."""
    room, left = MOST_METADATA_BYTES, list[Any]([given])
    while left and room >= 0:
        value = left.pop()
        room -= 1
        if isinstance(value, str):
            room -= len(value)
        elif isinstance(value, int):
            # At least a digit for four bits.
            room -= max(value.bit_length() - 1, 0) // 4
        elif isinstance(value, Mapping | Sequence):
            room -= len(value)
            if room >= 0:
                left += value.values() if isinstance(value, Mapping) else value
                room -= sum(map(len, value)) if isinstance(value, Mapping) else 0
    return room < 0


def _depth(value: Json, above: int = 0) -> int:
    """Counts no further than one level too many."""
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence) or above > DEEPEST_METADATA:
        return above
    inner = value.values() if isinstance(value, Mapping) else value
    return max((_depth(one, above + 1) for one in inner), default=above + 1)


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


class OrganizationUpdate(RecordChange, kw_only=True):
    """What the organization itself may change. The slug is in tokens, in URLs and in other people's configurations."""

    name: str | Unchanged = UNCHANGED
    metadata: Metadata | Unchanged = UNCHANGED

    def stored(self) -> dict[str, Any]:
        """Raises `BadRequest`."""
        if not self.said:
            raise BadRequest("Send at least one field", words="nothing_to_change")
        return checked(self.said, CHECKS)


CHECKS: Final[Checks] = {"name": organization_name, "metadata": checked_metadata}
_SHOWN: Final = ("name",)
"""The fields whose values an event has."""


def organization_suspended() -> OrganizationNotActive:
    message = "The organization is suspended: only a platform owner can delete it. Contact a platform owner"
    return OrganizationNotActive(message, words="organization_suspended")


def require_deletable(organization: Organization) -> None:
    """For its owner. Whoever suspends an organization wants to look into it. Raises `OrganizationNotActive` for a suspended one."""
    if organization.status is OrganizationStatus.SUSPENDED:
        raise organization_suspended()


def organization_created(organization: Organization, actor: Actor) -> Event:
    details = {"slug": organization.slug, "name": organization.name, "status": organization.status.value}
    return _event("organization.created", organization, actor, details)


def organization_updated(before: Organization, after: Organization, actor: Actor) -> Event:
    changed = [name for name in _SHOWN if getattr(before, name) != getattr(after, name)]
    old, new = ({name: getattr(one, name) for name in changed} for one in (before, after))
    return _event("organization.updated", after, actor, {"changed": changed, **{f"old_{name}": old[name] for name in changed}, **new})


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


class Related(Frozen):
    """One relation between a person and an organization. The person has it directly, or through the role with this slug, or through the
    team with this slug, or through a role that the team carries.
    """

    relation: str
    by_role: str = ""
    by_team: str = ""


class Accessor(Frozen):
    """Explains access: a user, an organization, the relations between them, and the actions that they allow. `role` is empty for users who
    are not members.
    """

    email: Email
    is_active: bool
    organization_slug: str
    organization_status: OrganizationStatus
    role: str
    related: Sequence[Related]
    second_factor_due: datetime | None = None
    """The end of the grace period of a member without the second factor that the organization requires."""
    owes_second_factor: bool = False
    """The grace period is over."""
    terms: Sequence[PendingTerms] = ()
    """Of the organization and of the installation, what the person has not accepted."""

    @property
    def owes_terms(self) -> bool:
        return any(one.is_over for one in self.terms)

    @property
    def gets_in(self) -> bool:
        """The result of the check at every request of the signed-in person."""
        belongs = bool(self.role and self.related) and not self.owes_second_factor and not self.owes_terms
        return self.is_active and belongs and self.organization_status is OrganizationStatus.ACTIVE

    @property
    def capabilities(self) -> Mapping[Capability, Sequence[Related]]:
        """The person's capabilities, in the order of the interface, each with all relations that give it."""
        given = {one: capabilities_of([one.relation]) for one in self.related}
        found = {capability: [one for one, gives in given.items() if capability in gives] for capability in Capability}
        return {capability: by for capability, by in found.items() if by}
