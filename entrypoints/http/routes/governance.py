"""Governing organizations: platform owners let them in, halt them, and say what they get."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.governance import LARGEST_OFFSET, LARGEST_OVERRIDE, UNCHANGED, Authority, GovernedOrganization, Override, Wanted
from core.domain.identifiers import OrganizationId, TierId
from core.domain.organizations import Organization, OrganizationStatus
from core.domain.pages import DEFAULT_LIMIT, LARGEST_LIMIT
from core.domain.tiers import Tier
from entrypoints.bootstrap import Services
from entrypoints.http.callers import PLATFORM_OWNER
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint

_TAGS = ("platform",)

Limit = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_OVERRIDE)] | None


class GovernedPath(msgspec.Struct, frozen=True):
    org_id: UUID


class WantedOrganizations(msgspec.Struct, frozen=True):
    status: OrganizationStatus | None = None
    tier_id: UUID | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_LIMIT)] = DEFAULT_LIMIT
    offset: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_OFFSET)] = 0


class Approval(msgspec.Struct, frozen=True):
    """Without `tier_id` it keeps the tier that it has, the free one unless somebody has changed it."""

    tier_id: UUID | None = None


class Rejection(msgspec.Struct, frozen=True):
    reason: str


class Suspension(msgspec.Struct, frozen=True):
    reason: str | None = None


class TierChange(msgspec.Struct, frozen=True):
    """A limit of the organization's own takes the place of its tier's. One that is left out stays as it is; null takes it away."""

    tier_id: UUID
    max_services: Limit | msgspec.UnsetType = msgspec.UNSET
    max_users: Limit | msgspec.UnsetType = msgspec.UNSET


class TierRecord(msgspec.Struct, frozen=True):
    id: UUID
    name: str
    display_name: str
    default_max_services: int
    default_max_users: int
    price_cents: int


class OrganizationRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    slug: str
    name: str
    status: OrganizationStatus
    tier_id: UUID
    owner_user_id: UUID | None
    max_services: int | None
    max_users: int | None
    approved_at: datetime | None
    approved_by: UUID | None
    rejected_at: datetime | None
    rejection_reason: str | None
    suspended_at: datetime | None
    suspension_reason: str | None
    created_at: datetime
    updated_at: datetime


class ListedOwner(msgspec.Struct, frozen=True):
    """When the owner's account is gone: `unknown`, `deleted-user@unknown`, and the beginning of time."""

    id: str
    email: str
    is_platform_owner: bool
    created_at: datetime


class ListedTier(msgspec.Struct, frozen=True):
    id: UUID
    name: str
    display_name: str


class ListedOrganization(msgspec.Struct, frozen=True):
    organization: OrganizationRecord
    owner: ListedOwner
    tier: ListedTier


class OrganizationList(msgspec.Struct, frozen=True):
    """Of a `total` of 10000 there are at least so many."""

    organizations: Sequence[ListedOrganization]
    total: int


class ApprovedOrganization(msgspec.Struct, frozen=True):
    id: UUID
    status: OrganizationStatus
    approved_at: datetime | None


class Approved(msgspec.Struct, frozen=True):
    organization: ApprovedOrganization


class Governed(msgspec.Struct, frozen=True):
    organization: OrganizationRecord


class OrganizationDeleted(msgspec.Struct, frozen=True):
    success: bool
    message: str


_GONE = ListedOwner("unknown", "deleted-user@unknown", False, datetime(1970, 1, 1, tzinfo=UTC))


@endpoint.get("/api/platform/tiers", caller=PLATFORM_OWNER, tags=_TAGS)
async def list_tiers(_call: Call, services: Services) -> Sequence[TierRecord]:
    """What organizations can get, the cheapest first"""
    return [tier_record(tier) for tier in await services.governance.tiers()]


@endpoint.get("/api/platform/organizations", caller=PLATFORM_OWNER, tags=_TAGS)
async def list_organizations_of_platform(call: Call[None, WantedOrganizations], services: Services) -> OrganizationList:
    """All organizations, the newest first"""
    asked = call.query
    wanted = Wanted(asked.status, None if asked.tier_id is None else TierId(asked.tier_id))
    found = await services.governance.list(wanted, asked.limit, asked.offset)
    return OrganizationList([_listed(one) for one in found.items], found.total)


@endpoint.post("/api/platform/organizations/{org_id}/approve", caller=PLATFORM_OWNER, refuses=(BadRequest,), tags=_TAGS)
async def approve_organization(call: Call[Approval, None, GovernedPath], services: Services) -> Approved:
    """Let a pending organization in"""
    tier = None if call.body.tier_id is None else TierId(call.body.tier_id)
    approved = await services.governance.approve(OrganizationId(call.path.org_id), tier, Authority(call.actor))
    return Approved(ApprovedOrganization(approved.id, approved.status, approved.approved_at))


@endpoint.post("/api/platform/organizations/{org_id}/reject", caller=PLATFORM_OWNER, tags=_TAGS)
async def reject_organization(call: Call[Rejection, None, GovernedPath], services: Services) -> Governed:
    """Turn a pending organization away

    For good. Its members see that it was rejected, and nothing else of it.
    """
    rejected = await services.governance.reject(OrganizationId(call.path.org_id), call.body.reason, Authority(call.actor))
    return Governed(organization_record(rejected))


@endpoint.post("/api/platform/organizations/{org_id}/suspend", caller=PLATFORM_OWNER, tags=_TAGS)
async def suspend_organization(call: Call[Suspension, None, GovernedPath], services: Services) -> Governed:
    """Halt an active organization

    From the next request on its members, and whoever uses its services, are refused with `ORGANIZATION_NOT_ACTIVE`.
    """
    suspended = await services.governance.suspend(OrganizationId(call.path.org_id), call.body.reason, Authority(call.actor))
    return Governed(organization_record(suspended))


@endpoint.post("/api/platform/organizations/{org_id}/activate", caller=PLATFORM_OWNER, refuses=(BadRequest,), tags=_TAGS)
async def activate_organization(call: Call[None, None, GovernedPath], services: Services) -> Governed:
    """End a suspension"""
    return Governed(organization_record(await services.governance.activate(OrganizationId(call.path.org_id), Authority(call.actor))))


@endpoint.patch("/api/platform/organizations/{org_id}/tier", caller=PLATFORM_OWNER, tags=_TAGS)
async def change_tier_of_organization(call: Call[TierChange, None, GovernedPath], services: Services) -> Governed:
    """Give an organization another tier, or limits of its own

    Nobody is put out, and nothing is switched off, by smaller limits: they let nothing more in.
    """
    change = call.body
    changed = await services.governance.change_tier(
        OrganizationId(call.path.org_id),
        TierId(change.tier_id),
        Authority(call.actor),
        max_services=_override(change.max_services),
        max_users=_override(change.max_users),
    )
    return Governed(organization_record(changed))


@endpoint.delete("/api/platform/organizations/{org_id}", caller=PLATFORM_OWNER, tags=_TAGS)
async def delete_organization_of_platform(call: Call[None, None, GovernedPath], services: Services) -> OrganizationDeleted:
    """Delete an organization, for good

    It is gone from every answer at once; its data is removed in the background. The audit log stays.
    """
    deleted = await services.governance.delete(OrganizationId(call.path.org_id), Authority(call.actor))
    return OrganizationDeleted(True, f"The organization {deleted.slug} is deleted")


def organization_record(organization: Organization) -> OrganizationRecord:
    return OrganizationRecord(
        id=organization.id,
        slug=organization.slug,
        name=organization.name,
        status=organization.status,
        tier_id=organization.tier,
        owner_user_id=organization.owner,
        max_services=organization.max_services,
        max_users=organization.max_users,
        approved_at=organization.approved_at,
        approved_by=organization.approved_by,
        rejected_at=organization.rejected_at,
        rejection_reason=organization.rejection_reason,
        suspended_at=organization.suspended_at,
        suspension_reason=organization.suspension_reason,
        created_at=organization.created_at,
        updated_at=organization.updated_at,
    )


def _override(given: int | msgspec.UnsetType | None) -> Override:
    return UNCHANGED if isinstance(given, msgspec.UnsetType) else given


def _listed(one: GovernedOrganization) -> ListedOrganization:
    owner = one.owner
    return ListedOrganization(
        organization_record(one.organization),
        _GONE if owner is None else ListedOwner(str(owner.id), owner.email, owner.is_platform_owner, owner.created_at),
        ListedTier(one.tier.id, one.tier.name, one.tier.display_name),
    )


def tier_record(tier: Tier) -> TierRecord:
    return TierRecord(tier.id, tier.name, tier.display_name, tier.default_max_services, tier.default_max_users, tier.price_cents)
