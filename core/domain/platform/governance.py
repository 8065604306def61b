"""Governance: the decisions of platform owners about an organization and its custom texts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest, Conflict
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, TierId, UserId
from core.domain.identity.callers import reason_given, reason_of
from core.domain.record.events import Actor, Event, Target
from core.domain.record.signals import streams_paused, streams_resumed
from core.domain.requests import UNCHANGED, Unchanged
from core.domain.tenancy.organizations import Organization, OrganizationStatus
from core.domain.tenancy.tiers import Tier
from core.domain.texts.own_texts import ApprovalRules
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

    def for_streams(self) -> Sequence[Event]:
        """What the streams of signals of the organization's services hear."""
        if self.name == "organization.suspended":
            return (streams_paused(self.organization.id),)
        return (streams_resumed(self.organization.id),) if self.name == "organization.activated" else ()


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


MOST_APPROVALS_LISTED: Final = 100
# An organization can have 174 texts in each language. A hundred such ones would be a hundred megabytes.
MOST_LISTED_TEXTS: Final = 5000


class ApprovalOutcome(StrEnum):
    """How an answer of a platform owner ended, for the metrics."""

    APPROVED = "approved"
    STALE = "stale"
    """The organization had other texts by then."""
    WITHDRAWN = "withdrawn"


class StoredText(Frozen):
    language: str
    key: str
    text: str


class OrganizationTexts(Frozen, kw_only=True):
    """The custom texts of an organization, for platform owners who approve them. An approval counts for exactly the texts that the platform
    owner has seen: other texts have another digest.
    """

    organization: OrganizationId
    slug: str
    name: str
    version: str
    """Their digest; empty where there are none any more."""
    approved_version: str | None
    """The digest of the texts that have a yes. The organization may have others now, and these again later."""
    changed_at: datetime | None
    texts: Sequence[StoredText] = ()

    @property
    def approved(self) -> bool:
        return self.approved_version == self.version


class ComparedText(Frozen):
    language: str
    key: str
    ours: str
    own: str


class ComparedTexts(Frozen):
    """The texts of an organization, each beside ours."""

    of: OrganizationTexts
    texts: Sequence[ComparedText]


def require_seen(held: OrganizationTexts, version: str) -> None:
    """Raises `Conflict` when the texts are not those that the platform owner has seen, and `BadRequest` when they have a yes already."""
    if held.version != version:
        raise Conflict("version: the custom text of the organization has changed; read it again", words="text_approval_stale")
    if held.approved:
        raise BadRequest("These texts are approved already", words="text_approval_done")


def texts_approved(held: OrganizationTexts, actor: Actor) -> Event:
    return _event("texts.approved", held, held.version, actor)


def approval_withdrawn(held: OrganizationTexts, actor: Actor) -> Event:
    return _event("texts.approval_withdrawn", held, held.approved_version, actor)


def _event(name: str, held: OrganizationTexts, version: str | None, actor: Actor) -> Event:
    return Event(name, actor, Target("organization", str(held.organization)), held.organization, {"version": version})


def rules_changed(before: ApprovalRules, after: ApprovalRules, actor: Actor) -> Event:
    details = {"before": _facts(before), "after": _facts(after)}
    return Event("platform.text_rules.updated", actor, Target("texts", "installation"), None, details)


def _facts(rules: ApprovalRules) -> Json:
    return {"mails": rules.mails, "pages": rules.pages}
