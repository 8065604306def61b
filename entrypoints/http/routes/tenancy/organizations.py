"""Organizations: their records, founding one, listing those of the caller, renaming and deleting one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, OrganizationNotActive
from core.domain.identity.proofs import StepUp
from core.domain.tenancy.members import Member, Membership
from core.domain.tenancy.organizations import (
    LONGEST_SLUG,
    SHORTEST_NAME,
    SHORTEST_SLUG,
    Organization,
    OrganizationOverview,
    OrganizationStatus,
    OrganizationUpdate,
)
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.tiers import Tier
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import MEMBER_OF_INACTIVE, OWN_PERSON, OWNER_IN_PERSON_OF_INACTIVE, PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    AccessTokenText,
    CreatedAt,
    EmailAddress,
    Id,
    IsPlatformOwner,
    Line,
    OrganizationPath,
    RefreshTokenText,
    UpdatedAt,
    Word,
    example,
)
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.tenancy.members import MembershipRecord


class TierRecord(msgspec.Struct, frozen=True):
    """A tier: the limits of organizations, and their price."""

    id: Id
    name: Annotated[str, example("free")]
    """The tier's machine-readable name."""
    display_name: Annotated[str, example("Free")]
    """The tier's display name."""
    default_max_services: Annotated[int, example(3)]
    """The maximum number of services of an organization."""
    default_max_users: Annotated[int, example(100)]
    """The maximum number of members of an organization."""
    price_cents: Annotated[int, example(0)]
    """The price in US cents."""


class OrganizationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An organization: a tenant with its own people, roles and services."""

    id: Id
    slug: Annotated[str, example("acme")]
    """The organization's slug, which never changes."""
    name: Annotated[str, example("Acme Ltd")]
    """The organization's name."""
    status: OrganizationStatus
    """The state of the organization."""
    tier_id: UUID
    """The tier of the organization."""
    owner_user_id: UUID | None
    """The user who owns the organization; null if the account was deleted."""
    max_services: Annotated[int, example(5)] | None
    """The organization's own limit on services; null if the tier's limit applies."""
    max_users: Annotated[int, example(20)] | None
    """The organization's own limit on members; null if the tier's limit applies."""
    approved_at: datetime | None
    """When the organization was approved; null if it was not."""
    approved_by: UUID | None
    """The platform owner who approved the organization; null if no one did."""
    rejected_at: Annotated[datetime | None, example(None)]
    """When the organization was rejected; null if it was not."""
    rejection_reason: Annotated[str | None, example(None)]
    """The reason for the rejection."""
    suspended_at: Annotated[datetime | None, example(None)]
    """When the organization was suspended; null if it is not."""
    suspension_reason: Annotated[str | None, example(None)]
    """The reason for the suspension."""
    created_at: CreatedAt
    updated_at: UpdatedAt


organization_record = shown(Organization, OrganizationRecord, named={"tier_id": "tier", "owner_user_id": "owner"})


def tier_record(tier: Tier) -> TierRecord:
    return TierRecord(tier.id, tier.name, tier.display_name, tier.default_max_services, tier.default_max_users, tier.price_cents)


_TAGS = ("organizations",)
_ORGANIZATION = "/api/organizations/{org_slug}"


class NewOrganization(msgspec.Struct, frozen=True):
    """A new organization."""

    slug: Annotated[str, msgspec.Meta(min_length=SHORTEST_SLUG, max_length=LONGEST_SLUG, examples=["acme"])]
    """3 to 50 characters: a-z, 0-9 and -, starting and ending with a letter or a digit. The slug never changes."""
    name: Annotated[Line, msgspec.Meta(min_length=SHORTEST_NAME, examples=["Acme Ltd"])]
    """2 to 100 characters; leading and trailing spaces are removed."""


class OrganizationChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of an organization. Omitted fields keep their values; send at least one."""

    name: Annotated[Line, msgspec.Meta(min_length=SHORTEST_NAME, examples=["Acme Ltd"])] | msgspec.UnsetType = msgspec.UNSET
    """2 to 100 characters; leading and trailing spaces are removed."""
    metadata: Annotated[Mapping[Word, Any], example({"contract": "A-17"})] | msgspec.UnsetType = msgspec.UNSET
    """The metadata, an object of at most 4096 bytes and 5 levels, which replaces the previous metadata. Tokens do not contain it. The API
    keys of the organization's services can read it.
    """


_update = taken(OrganizationChange, OrganizationUpdate)


class OrganizationOwner(msgspec.Struct, frozen=True):
    """The owner's account."""

    id: Id
    email: EmailAddress
    is_platform_owner: IsPlatformOwner
    created_at: CreatedAt


class OwnMembershipRecord(MembershipRecord, frozen=True):
    """Your membership in an organization."""

    own_since: Annotated[datetime | None, example("2026-01-31T12:00:00Z")]
    """When you created or confirmed the membership: by creating the organization, accepting an invitation, confirming the membership, or
    signing in through the organization's own identity provider. Null if others added you and you have not confirmed it.
    """


class OrganizationCreated(msgspec.Struct, frozen=True):
    """The new organization, and a session in it."""

    organization: OrganizationRecord
    """The organization."""
    owner: OrganizationOwner
    """The owner's account, which is yours."""
    membership: OwnMembershipRecord
    """Your membership in the organization."""
    access_token: AccessTokenText
    """The access token for the new organization."""
    refresh_token: RefreshTokenText


class OwnOrganization(msgspec.Struct, frozen=True):
    """An organization that you are a member of."""

    organization: OrganizationRecord
    """The organization."""
    membership: OwnMembershipRecord
    """Your membership in the organization."""
    member_count: Annotated[int, example(7)]
    """The number of members of the organization."""
    service_count: Annotated[int, example(2)]
    """The number of services of the organization."""
    tier: TierRecord
    """The tier of the organization."""


class OwnOrganizationWithMetadata(OwnOrganization, frozen=True):
    """An organization that you are a member of, with its metadata."""

    metadata: Annotated[Mapping[str, Any], example({"contract": "A-17"})] | None
    """The organization's metadata; null if you cannot manage its settings. Lists do not contain it."""


@endpoint.post("/api/organizations", caller=OWN_PERSON, refuses=(BadRequest, Conflict), tags=_TAGS)
async def create_organization(call: Call[NewOrganization], postern: Postern) -> OrganizationCreated:
    """Create an organization

    You become the owner. The organization is pending until a platform owner approves it, unless the installation approves all
    organizations. The tokens are for a session in the organization, which ends when the session of your token ends. The organization gets
    the free tier; if you are a platform owner, it gets the largest tier. You can own at most 1000 organizations, of which at most 100 can
    be pending.
    """
    founded = await postern.tenancy.organizations.found(call.caller, call.body.slug, call.body.name, call.actor)
    owner = founded.owner
    return OrganizationCreated(
        organization_record(founded.organization),
        OrganizationOwner(owner.id, owner.email.address, owner.is_platform_owner, owner.created_at),
        _own_membership(founded.membership),
        founded.tokens.access_token.reveal(),
        founded.tokens.refresh_token.reveal(),
    )


@endpoint.get("/api/organizations", caller=PERSON, tags=_TAGS)
async def list_organizations(call: Call, postern: Postern) -> Sequence[OwnOrganization]:
    """List your organizations

    Return the organizations that you are a member of, in any state, sorted by name. The organization of your token makes no difference. The
    list has at most 1000 entries: first the organizations that you own, then those that you joined earliest.
    """
    return [_own(overview) for overview in await postern.tenancy.organizations.list(call.caller.user)]


@endpoint.get(_ORGANIZATION, caller=MEMBER_OF_INACTIVE, tags=_TAGS)
async def get_organization(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> OwnOrganizationWithMetadata:
    """Get an organization

    Return an organization that you are a member of, with its metadata, your membership and its tier. The organization can be in any state,
    for example pending or suspended.
    """
    return _with_metadata(await postern.tenancy.organizations.get(call.caller), call.caller)


@endpoint.patch(_ORGANIZATION, caller=able(Capability.SETTINGS_MANAGE, impersonated=True), tags=_TAGS)
async def change_organization(
    call: Call[OrganizationChange, None, OrganizationPath, Member], postern: Postern
) -> OwnOrganizationWithMetadata:
    """Change an organization

    Change the name or the metadata. New metadata replaces the previous metadata completely. The slug never changes.
    """
    return _with_metadata(await postern.tenancy.organizations.change(call.caller, _update(call.body), call.actor), call.caller)


@endpoint.delete(
    _ORGANIZATION,
    caller=OWNER_IN_PERSON_OF_INACTIVE,
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    refuses=(OrganizationNotActive,),
    status=204,
    tags=_TAGS,
)
async def delete_organization(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Delete an organization

    Delete the organization and all its data permanently. From the next request on, no request, list or token finds the organization, and
    its slug is free. A background job deletes its data, usually within 1 minute. People keep their accounts. The audit log is kept, without
    data that identifies people. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.

    While the organization is suspended, only platform owners can delete it. The owner can delete an organization that is pending or was
    rejected.
    """
    await postern.tenancy.organizations.delete(call.caller, call.actor)
    return NO_BODY


def _own_membership(membership: Membership) -> OwnMembershipRecord:
    return OwnMembershipRecord(
        membership.id, membership.organization, membership.user, membership.role, membership.created_at, membership.own_since
    )


def _with_metadata(overview: OrganizationOverview, member: Member) -> OwnOrganizationWithMetadata:
    own = _own(overview)
    return OwnOrganizationWithMetadata(
        own.organization,
        own.membership,
        own.member_count,
        own.service_count,
        own.tier,
        overview.metadata if member.may(Capability.SETTINGS_MANAGE) else None,
    )


def _own(overview: OrganizationOverview) -> OwnOrganization:
    return OwnOrganization(
        organization_record(overview.organization),
        _own_membership(overview.membership),
        overview.member_count,
        overview.service_count,
        tier_record(overview.tier),
    )
