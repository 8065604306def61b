"""Organizations: founding one, those that the caller belongs to, and what their people say of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.members import Member
from core.domain.organizations import LONGEST_SLUG, SHORTEST_NAME, SHORTEST_SLUG, OrganizationOverview
from core.domain.roles import Capability
from entrypoints.bootstrap import Services
from entrypoints.http.answers import NO_BODY, NoBody
from entrypoints.http.callers import MEMBER_OF_INACTIVE, OWN_PERSON, OWNER_OF_INACTIVE, PERSON, able
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.routes.governance import OrganizationRecord, TierRecord, organization_record, tier_record
from entrypoints.http.routes.members import MembershipRecord, membership_record

_TAGS = ("organizations",)
_ORGANIZATION = "/api/organizations/{org_slug}"


class OwnOrganizationPath(msgspec.Struct, frozen=True):
    org_slug: str


class NewOrganization(msgspec.Struct, frozen=True):
    """`slug`: 3 to 50 of a-z, 0-9 and -, with a letter or digit at both ends. It never changes."""

    slug: Annotated[str, msgspec.Meta(min_length=SHORTEST_SLUG, max_length=LONGEST_SLUG)]
    name: Annotated[str, msgspec.Meta(min_length=SHORTEST_NAME)]


class OrganizationChange(msgspec.Struct, frozen=True):
    """`name`: 2 to 100 characters, without the space around them."""

    name: Annotated[str, msgspec.Meta(min_length=SHORTEST_NAME)]


class OrganizationOwner(msgspec.Struct, frozen=True):
    id: UUID
    email: str
    is_platform_owner: bool
    created_at: datetime


class OrganizationFounded(msgspec.Struct, frozen=True):
    """The tokens are for the new organization."""

    organization: OrganizationRecord
    owner: OrganizationOwner
    membership: MembershipRecord
    access_token: str
    refresh_token: str


class OwnOrganization(msgspec.Struct, frozen=True):
    """An organization, and the caller's membership in it."""

    organization: OrganizationRecord
    membership: MembershipRecord
    member_count: int
    service_count: int
    tier: TierRecord


@endpoint.post("/api/organizations", caller=OWN_PERSON, refuses=(BadRequest, Conflict), tags=_TAGS)
async def create_organization(call: Call[NewOrganization], services: Services) -> OrganizationFounded:
    """Found an organization

    The caller is its owner. It waits for the approval of a platform owner, unless the installation approves of all. The tokens are those of
    a session in it, which ends when the one that this is called with would have ended at the latest. A caller has at most a hundred
    organizations that wait, and founds none while they own a thousand.
    """
    founded = await services.organizations.found(call.caller, call.body.slug, call.body.name, call.actor)
    owner = founded.owner
    return OrganizationFounded(
        organization_record(founded.organization),
        OrganizationOwner(owner.id, owner.email.address, owner.is_platform_owner, owner.created_at),
        membership_record(founded.membership),
        founded.tokens.access_token.reveal(),
        founded.tokens.refresh_token.reveal(),
    )


@endpoint.get("/api/organizations", caller=PERSON, tags=_TAGS)
async def list_organizations(call: Call, services: Services) -> Sequence[OwnOrganization]:
    """The organizations that the caller is a member of, by name

    Whatever their state, and whichever organization the token is for. A thousand at most: first of all the caller's own, then those that
    they have been a member of for longest.
    """
    return [_own(overview) for overview in await services.organizations.list(call.caller.user)]


@endpoint.get(_ORGANIZATION, caller=MEMBER_OF_INACTIVE, tags=_TAGS)
async def organization_detail(call: Call[None, None, OwnOrganizationPath, Member], services: Services) -> OwnOrganization:
    """One organization of the caller's, whatever its state"""
    return _own(await services.organizations.get(call.caller))


@endpoint.patch(_ORGANIZATION, caller=able(Capability.SETTINGS_MANAGE), tags=_TAGS)
async def rename_organization(call: Call[OrganizationChange, None, OwnOrganizationPath, Member], services: Services) -> OwnOrganization:
    """Rename an organization"""
    return _own(await services.organizations.rename(call.caller, call.body.name, call.actor))


@endpoint.delete(_ORGANIZATION, caller=OWNER_OF_INACTIVE, status=204, tags=_TAGS)
async def delete_organization(call: Call[None, None, OwnOrganizationPath, Member], services: Services) -> NoBody:
    """Delete an organization with all its data, for good

    It is gone at once: from every list, for every token, and its slug is free. Its data is removed in the background, within a minute even
    when there is much of it. Accounts stay: they are their people's. So does the audit log, without what tells who somebody is.
    """
    await services.organizations.delete(call.caller, call.actor)
    return NO_BODY


def _own(overview: OrganizationOverview) -> OwnOrganization:
    return OwnOrganization(
        organization_record(overview.organization),
        membership_record(overview.membership),
        overview.member_count,
        overview.service_count,
        tier_record(overview.tier),
    )
