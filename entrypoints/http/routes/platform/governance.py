"""Governance: platform owners approve, reject, suspend and limit organizations, and approve the hosts of their APIs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import OrganizationId, ResourceServerId, TierId
from core.domain.identity.callers import Caller
from core.domain.identity.proofs import StepUp
from core.domain.platform.governance import (
    LARGEST_OFFSET,
    LARGEST_OVERRIDE,
    LONGEST_SEARCH,
    Authority,
    GovernedOrganization,
    GovernedOwner,
    OrganizationFilter,
)
from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT
from core.domain.services.resource_servers import ResourceApproval
from core.domain.tenancy.management_keys import ManagementKeyHolder, PlatformCapability
from core.domain.tenancy.members import knows_of_office
from core.domain.tenancy.organizations import OrganizationStatus
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    EmailAddress,
    Id,
    IsPlatformOwner,
    MessageText,
    OptionalReason,
    OrganizationUuid,
    PersonName,
    Reason,
    Success,
    Total,
    changed,
    example,
)
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.services.resource_servers import ResourceServerRecord, resource_server_record
from entrypoints.http.routes.tenancy.organizations import OrganizationRecord, TierRecord, organization_record, tier_record

_TAGS = ("platform",)

Limit = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_OVERRIDE)] | None


class GovernedPath(msgspec.Struct, frozen=True):
    org_id: OrganizationUuid


class WantedOrganizations(msgspec.Struct, frozen=True):
    status: OrganizationStatus | None = None
    """Return only organizations with this status."""
    tier_id: UUID | None = None
    """Return only organizations with this tier."""
    search: Annotated[str, msgspec.Meta(max_length=LONGEST_SEARCH), example("acme")] = ""
    """Return only organizations whose slug or name begins with this text, case-insensitive, or the organization with this ID. The search
    stops after 1000 slugs and 1000 names.
    """
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The maximum number of organizations to return."""
    offset: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_OFFSET)] = 0
    """The number of organizations to skip."""


class ApprovalTerms(msgspec.Struct, frozen=True):
    """The tier of the approved organization."""

    tier_id: UUID | None = None
    """The tier that the organization gets; the free tier by default. If a platform owner owns the organization, it keeps its tier."""


class OrganizationRejection(msgspec.Struct, frozen=True):
    """The reason for the rejection."""

    reason: Annotated[Reason, example("We could not verify the company")]
    """The reason. The organization's members can read it."""


class OrganizationSuspension(msgspec.Struct, frozen=True):
    """The reason for the suspension."""

    reason: Annotated[OptionalReason, example("Invoices are overdue")] | None = None
    """The reason. The organization's members can read it."""


class TierChange(msgspec.Struct, frozen=True):
    """The tier of an organization, and its own limits, which override the limits of the tier."""

    tier_id: UUID
    """The tier that the organization gets."""
    max_services: Limit | msgspec.UnsetType = msgspec.UNSET
    """The maximum number of services. Null removes this limit, so that the tier's limit applies. If omitted, the limit stays unchanged."""
    max_users: Limit | msgspec.UnsetType = msgspec.UNSET
    """The maximum number of members. Null removes this limit, so that the tier's limit applies. If omitted, the limit stays unchanged."""


class ListedOwner(msgspec.Struct, frozen=True):
    """The owner. If the account was deleted, the values are `unknown`, `deleted-user@unknown`, and 1970."""

    id: Annotated[str, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")]
    """The owner's ID."""
    email: EmailAddress
    is_platform_owner: IsPlatformOwner
    created_at: CreatedAt
    name: PersonName | None = None


class ListedTier(msgspec.Struct, frozen=True):
    """The tier of the organization."""

    id: Id
    name: Annotated[str, example("free")]
    """The tier's machine-readable name."""
    display_name: Annotated[str, example("Free")]
    """The tier's display name."""


class ListedOrganization(msgspec.Struct, frozen=True):
    """An organization with its owner and tier."""

    organization: OrganizationRecord
    """The organization."""
    owner: ListedOwner
    """The owner of the organization."""
    tier: ListedTier
    """The tier of the organization."""


class PlatformOrganizationDetail(msgspec.Struct, frozen=True, kw_only=True):
    """An organization with its owner, its tier, and the number of objects that are deleted with it. Counting stops at 10 000."""

    organization: OrganizationRecord
    """The organization."""
    owner: ListedOwner
    """The owner of the organization."""
    tier: ListedTier
    """The tier of the organization."""
    members: Annotated[int, example(12)]
    """The number of members."""
    services: Annotated[int, example(3)]
    """The number of services."""
    end_users: Annotated[int, example(420)]
    """The number of users of its services. A person who uses 2 services counts twice."""
    teams: Annotated[int, example(4)]
    """The number of teams."""
    webhooks: Annotated[int, example(1)]
    """The number of webhooks."""


class OrganizationList(msgspec.Struct, frozen=True):
    """One page of organizations."""

    organizations: Sequence[ListedOrganization]
    """The organizations on this page, the newest first."""
    total: Total
    """The number of organizations that match. Counting stops at 10 000: that number means "10 000 or more"."""


class ApprovedOrganization(msgspec.Struct, frozen=True):
    """The organization after the approval."""

    id: Id
    status: OrganizationStatus
    """The new status of the organization."""
    approved_at: datetime | None
    """When the organization was approved."""


class OrganizationApproved(msgspec.Struct, frozen=True):
    """The approval took effect."""

    organization: ApprovedOrganization
    """The organization after the approval."""


class OrganizationChanged(msgspec.Struct, frozen=True):
    """The change took effect."""

    organization: OrganizationRecord
    """The organization after the change."""


class OrganizationDeleted(msgspec.Struct, frozen=True):
    """The organization is deleted."""

    success: Success
    message: MessageText


_GONE = ListedOwner("unknown", "deleted-user@unknown", False, datetime(1970, 1, 1, tzinfo=UTC))


@endpoint.get("/api/platform/tiers", caller=PLATFORM_OWNER, keys=PlatformCapability.ORGANIZATIONS_VIEW, tags=_TAGS)
async def list_tiers(_call: Call, postern: Postern) -> Sequence[TierRecord]:
    """List the tiers of organizations

    Return the tiers, the cheapest first. A tier limits the number of members and services. To change the tier of an organization, use
    `PATCH /api/platform/organizations/{org_id}/tier`.
    """
    return [tier_record(tier) for tier in await postern.platform.governance.tiers()]


@endpoint.get("/api/platform/organizations", caller=PLATFORM_OWNER, keys=PlatformCapability.ORGANIZATIONS_VIEW, tags=_TAGS)
async def list_platform_organizations(call: Call[None, WantedOrganizations], postern: Postern) -> OrganizationList:
    """List all organizations

    Return the organizations, the newest first. Filter by `status` and `tier_id`, or search by slug and name.
    """
    asked = call.query
    wanted = OrganizationFilter(asked.status, None if asked.tier_id is None else TierId(asked.tier_id), asked.search.strip())
    found = await postern.platform.governance.list(wanted, asked.limit, asked.offset)
    return OrganizationList([_listed(call.caller, one) for one in found.items], found.total)


@endpoint.get(
    "/api/platform/organizations/{org_id}",
    caller=PLATFORM_OWNER,
    keys=PlatformCapability.ORGANIZATIONS_VIEW,
    refuses=(NotFound,),
    tags=_TAGS,
)
async def get_platform_organization(call: Call[None, None, GovernedPath], postern: Postern) -> PlatformOrganizationDetail:
    """Get an organization of the installation

    Return the organization, and the number of objects that are deleted if you delete the organization.
    """
    found = await postern.platform.governance.show(OrganizationId(call.path.org_id))
    counted = await postern.platform.governance.belongings(found.organization.id)
    listed = _listed(call.caller, found)
    return PlatformOrganizationDetail(
        organization=listed.organization,
        owner=listed.owner,
        tier=listed.tier,
        members=counted.members,
        services=counted.services,
        end_users=counted.end_users,
        teams=counted.teams,
        webhooks=counted.webhooks,
    )


@endpoint.post(
    "/api/platform/organizations/{org_id}/approve",
    caller=PLATFORM_OWNER,
    keys=PlatformCapability.ORGANIZATIONS_MANAGE,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def approve_organization(call: Call[ApprovalTerms, None, GovernedPath], postern: Postern) -> OrganizationApproved:
    """Approve a pending organization

    Its members can use the organization from the next request on.
    """
    tier = None if call.body.tier_id is None else TierId(call.body.tier_id)
    approved = await postern.platform.governance.approve(OrganizationId(call.path.org_id), tier, Authority(call.actor))
    return OrganizationApproved(ApprovedOrganization(approved.id, approved.status, approved.approved_at))


@endpoint.post(
    "/api/platform/organizations/{org_id}/reject", caller=PLATFORM_OWNER, keys=PlatformCapability.ORGANIZATIONS_MANAGE, tags=_TAGS
)
async def reject_organization(call: Call[OrganizationRejection, None, GovernedPath], postern: Postern) -> OrganizationChanged:
    """Reject a pending organization

    This cannot be undone. The organization's members see only the rejection and its reason.
    """
    rejected = await postern.platform.governance.reject(OrganizationId(call.path.org_id), call.body.reason, Authority(call.actor))
    return OrganizationChanged(organization_record(rejected))


@endpoint.post(
    "/api/platform/organizations/{org_id}/suspend", caller=PLATFORM_OWNER, keys=PlatformCapability.ORGANIZATIONS_MANAGE, tags=_TAGS
)
async def suspend_organization(call: Call[OrganizationSuspension, None, GovernedPath], postern: Postern) -> OrganizationChanged:
    """Suspend an active organization

    From the next request on, its members and the users of its services get `ORGANIZATION_NOT_ACTIVE`.
    """
    suspended = await postern.platform.governance.suspend(OrganizationId(call.path.org_id), call.body.reason, Authority(call.actor))
    return OrganizationChanged(organization_record(suspended))


@endpoint.post(
    "/api/platform/organizations/{org_id}/activate",
    caller=PLATFORM_OWNER,
    keys=PlatformCapability.ORGANIZATIONS_MANAGE,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def activate_organization(call: Call[None, None, GovernedPath], postern: Postern) -> OrganizationChanged:
    """Reactivate a suspended organization

    Its members can use the organization again from the next request on.
    """
    return OrganizationChanged(
        organization_record(await postern.platform.governance.activate(OrganizationId(call.path.org_id), Authority(call.actor)))
    )


@endpoint.patch("/api/platform/organizations/{org_id}/tier", caller=PLATFORM_OWNER, keys=PlatformCapability.TIERS_MANAGE, tags=_TAGS)
async def change_organization_tier(call: Call[TierChange, None, GovernedPath], postern: Postern) -> OrganizationChanged:
    """Change the tier or the limits of an organization

    Lower limits do not remove members or disable services. They only prevent new ones.
    """
    change = call.body
    organization = await postern.platform.governance.change_tier(
        OrganizationId(call.path.org_id),
        TierId(change.tier_id),
        Authority(call.actor),
        max_services=changed(change.max_services),
        max_users=changed(change.max_users),
    )
    return OrganizationChanged(organization_record(organization))


@endpoint.delete("/api/platform/organizations/{org_id}", caller=PLATFORM_OWNER, step_up=StepUp.ACCOUNT, tags=_TAGS)
async def delete_platform_organization(call: Call[None, None, GovernedPath], postern: Postern) -> OrganizationDeleted:
    """Delete an organization of the installation

    Delete the organization permanently. From the next request on, no request finds it; a background job deletes its data. The audit log is
    kept. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    deleted = await postern.platform.governance.delete(OrganizationId(call.path.org_id), Authority(call.actor))
    return OrganizationDeleted(True, f"The organization {deleted.slug} is deleted")


def _listed(reader: Caller | ManagementKeyHolder, one: GovernedOrganization) -> ListedOrganization:
    owner = one.owner
    return ListedOrganization(
        organization_record(one.organization),
        _GONE if owner is None else _owner(reader, owner),
        ListedTier(one.tier.id, one.tier.name, one.tier.display_name),
    )


def _owner(reader: Caller | ManagementKeyHolder, owner: GovernedOwner) -> ListedOwner:
    governs = knows_of_office(reader, owner.id, is_platform_owner=owner.is_platform_owner)
    return ListedOwner(str(owner.id), owner.email, governs, owner.created_at, owner.name)


_SERVERS = "/api/platform/resource-servers"


class ApprovedResourcePath(msgspec.Struct, frozen=True):
    resource_id: UUID
    """The resource server's ID."""


class ResourceApprovalRecord(msgspec.Struct, frozen=True):
    """A resource server that awaits an approval, or has one."""

    resource_server: ResourceServerRecord
    """The resource server."""
    org_slug: Annotated[str, example("acme")]
    """The organization's slug."""
    org_name: Annotated[str, example("Acme")]
    """The organization's name."""
    proved_elsewhere: Annotated[bool, example(False)]
    """Whether another organization has verified the host. If so, the resource server cannot be approved."""


@endpoint.get(_SERVERS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_resource_approvals(_call: Call, postern: Postern) -> Sequence[ResourceApprovalRecord]:
    """List the approvals of resource servers

    Return the first 200 resource servers that await an approval, the longest waiting first, and then those that have one, the newest first.
    Organizations request an approval if they cannot verify the host of their API.
    """
    return [_record(one, postern) for one in await postern.services.resource_approvals.list()]


@endpoint.post(
    f"{_SERVERS}/{{resource_id}}/approval",
    caller=PLATFORM_OWNER,
    limit=UNLIMITED,
    refuses=(BadRequest, Conflict, NotFound),
    tags=_TAGS,
)
async def approve_resource_server(call: Call[None, None, ApprovedResourcePath], postern: Postern) -> ResourceServerRecord:
    """Approve the host of an organization's API

    From now on, tokens are issued for the API although no one has verified the host. Make sure that the API belongs to the organization:
    the API trusts every token that this installation issues for it. If another organization verifies the host, the approval is revoked.
    """
    approved = await postern.services.resource_approvals.approve(call.caller, ResourceServerId(call.path.resource_id), call.actor)
    return resource_server_record(approved, postern)


@endpoint.delete(f"{_SERVERS}/{{resource_id}}/approval", caller=PLATFORM_OWNER, limit=UNLIMITED, refuses=(NotFound,), tags=_TAGS)
async def end_resource_approval(call: Call[None, None, ApprovedResourcePath], postern: Postern) -> ResourceServerRecord:
    """Revoke the approval of an API's host

    The API awaits an approval again, and no more tokens are issued for it. If there is no approval, nothing happens.
    """
    after = await postern.services.resource_approvals.withdraw(call.caller, ResourceServerId(call.path.resource_id), call.actor)
    return resource_server_record(after, postern)


def _record(one: ResourceApproval, postern: Postern) -> ResourceApprovalRecord:
    return ResourceApprovalRecord(
        resource_server_record(one.server, postern), one.organization_slug, one.organization_name, one.proved_elsewhere
    )
