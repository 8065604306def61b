"""Governance: the decisions of platform owners about an organization, the states that allow them, and their events."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from core.domain.changes import UNCHANGED, Unchanged
from core.domain.errors import BadRequest
from core.domain.identifiers import TierId, UserId
from core.domain.identity.impersonation import reason_given, reason_of
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.organizations import Organization, OrganizationStatus
from core.domain.tenancy.tiers import Tier
from core.frozen import Frozen, field, replace

# The largest number of the database's integer type. No organization comes near it.
LARGEST_OVERRIDE: Final = 2**31 - 1
# A list is read from its start. To find an organization far down the list, narrow the list.
LARGEST_OFFSET: Final = 1_000_000
LONGEST_SEARCH: Final = 200
# One letter begins very many names. Whoever looks for one organization writes more.
MOST_SOUGHT: Final = 1000


# A limit of the organization's own. None for its tier's limit.
Override = int | None | Unchanged


class Terms(Frozen):
    """The limits that an organization is to get: a tier, and numbers of its own where they are given."""

    tier: Tier
    max_services: Override = UNCHANGED
    max_users: Override = UNCHANGED


class Authority(Frozen):
    """The person who decides: a platform owner, or an operator at the command line. An operator has no account, and is known by a name."""

    actor: Actor
    operator: str = ""

    @property
    def personal(self) -> Mapping[str, str]:
        """The operator's name belongs to a person, so it must be possible to forget it."""
        return {"operator": self.operator} if self.operator else {}


class GovernedOwner(Frozen):
    """The owner of an organization, for lists. An organization whose owner's account is deleted has no owner here."""

    id: UserId
    email: str
    is_platform_owner: bool
    created_at: datetime
    name: str | None = None


class GovernedOrganization(Frozen):
    organization: Organization
    owner: GovernedOwner | None
    tier: Tier
    members: int


class Belongings(Frozen):
    """The things that end with an organization."""

    members: int
    services: int
    end_users: int
    teams: int
    webhooks: int


class OrganizationFilter(Frozen):
    """A filter for lists of organizations. None selects all."""

    status: OrganizationStatus | None = None
    tier: TierId | None = None
    search: str = ""
    """The beginning of a slug or of a name, or an id. Empty for all."""


class GovernanceDecision(Frozen):
    """The organization after a decision, and the event for the audit log."""

    organization: Organization
    name: str
    details: Mapping[str, Json] = field(default_factory=dict)

    def event(self, by: Authority) -> Event:
        organization = self.organization.id
        target = Target("organization", str(organization))
        return Event(self.name, by.actor, target, organization, self.details, personal=by.personal)


def approve(organization: Organization, tier: Tier, by: UserId | None, at: datetime) -> GovernanceDecision:
    _require(organization, OrganizationStatus.PENDING, "approved")
    active = replace(organization, status=OrganizationStatus.ACTIVE, tier=tier.id, approved_at=at, approved_by=by, updated_at=at)
    return GovernanceDecision(active, "organization.approved", {"tier": tier.name})


def reject(organization: Organization, reason: str, at: datetime) -> GovernanceDecision:
    """A rejection is final. The person can apply with another organization."""
    reason = reason_of(reason)
    _require(organization, OrganizationStatus.PENDING, "rejected")
    rejected = replace(organization, status=OrganizationStatus.REJECTED, rejected_at=at, rejection_reason=reason, updated_at=at)
    return GovernanceDecision(rejected, "organization.rejected", {"reason": reason})


def suspend(organization: Organization, reason: str | None, at: datetime) -> GovernanceDecision:
    """A blank reason counts as none."""
    given = None if reason is None else reason_given(reason)
    _require(organization, OrganizationStatus.ACTIVE, "suspended")
    suspended = replace(organization, status=OrganizationStatus.SUSPENDED, suspended_at=at, suspension_reason=given, updated_at=at)
    return GovernanceDecision(suspended, "organization.suspended", {} if given is None else {"reason": given})


def activate(organization: Organization, at: datetime) -> GovernanceDecision:
    """The audit log keeps the reason for the suspension. The organization's row shows only what is in force."""
    _require(organization, OrganizationStatus.SUSPENDED, "activated")
    active = replace(organization, status=OrganizationStatus.ACTIVE, suspended_at=None, suspension_reason=None, updated_at=at)
    return GovernanceDecision(active, "organization.activated")


def change_tier(organization: Organization, old: Tier, terms: Terms, at: datetime) -> GovernanceDecision | None:
    """The tier can change in any state. A smaller limit removes nobody; it only stops further additions. None when nothing changes."""
    max_services, max_users = terms.max_services, terms.max_users
    changed = replace(
        organization,
        tier=terms.tier.id,
        max_services=organization.max_services if isinstance(max_services, Unchanged) else max_services,
        max_users=organization.max_users if isinstance(max_users, Unchanged) else max_users,
    )
    if changed == organization:
        return None
    details = {"old_tier": old.name, "tier": terms.tier.name, "max_services": changed.max_services, "max_users": changed.max_users}
    return GovernanceDecision(replace(changed, updated_at=at), "organization.tier.changed", details)


def _require(organization: Organization, status: OrganizationStatus, done: str) -> None:
    if organization.status is not status:
        article = "an" if status is OrganizationStatus.ACTIVE else "a"
        raise BadRequest(
            f"Only {article} {status} organization can be {done}; this one is {organization.status}", words="organization_state"
        )
