"""The members of an organization: seen by each other, changed by whoever may; its ownership; and going on in it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, NotFound, OrganizationNotActive
from core.domain.identifiers import UserId
from core.domain.members import Member, Membership
from core.domain.roles import LONGEST_SLUG, BuiltInRole, Capability
from core.domain.tiers import LimitSource
from entrypoints.bootstrap import Services
from entrypoints.http.answers import Message
from entrypoints.http.callers import OWN_PERSON, OWNER, able
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.paging import Pagination, Paging, page_of

_TAGS = ("members",)
_MEMBER = "/api/organizations/{org_slug}/members/{user_id}"


class MembersPath(msgspec.Struct, frozen=True):
    org_slug: str


class MemberPath(msgspec.Struct, frozen=True):
    org_slug: str
    user_id: UUID


class MembersQuery(Paging, frozen=True, kw_only=True):
    """`role` is the slug of a role, built in or of the organization's own."""

    role: Annotated[str, msgspec.Meta(max_length=LONGEST_SLUG)] | None = None


class MembershipRecord(msgspec.Struct, frozen=True):
    """`role` is the slug of a role, built in or of the organization's own."""

    id: UUID
    org_id: UUID
    user_id: UUID
    role: str
    created_at: datetime


class MembershipSummary(msgspec.Struct, frozen=True):
    id: UUID
    role: str
    created_at: datetime


class MemberAccount(msgspec.Struct, frozen=True):
    id: UUID
    email: str
    is_platform_owner: bool


class MemberSummary(msgspec.Struct, frozen=True):
    user: MemberAccount
    membership: MembershipSummary


class MemberLimits(msgspec.Struct, frozen=True):
    """How many members there may be, and who says so: the organization's own number, its tier, or nobody."""

    max_users: int
    source: LimitSource


class MembersAnswer(msgspec.Struct, frozen=True):
    members: Sequence[MemberSummary]
    pagination: Pagination
    limits: MemberLimits


class RoleChange(msgspec.Struct, frozen=True):
    role: str


class ChangedAccount(msgspec.Struct, frozen=True):
    id: UUID
    email: str


class MemberChanged(msgspec.Struct, frozen=True):
    user: ChangedAccount
    membership: MembershipRecord


class Transfer(msgspec.Struct, frozen=True):
    new_owner_user_id: UUID


class FormerOwner(msgspec.Struct, frozen=True):
    user_id: UUID
    new_role: str


class NewOwner(msgspec.Struct, frozen=True):
    user_id: UUID
    role: str


class Transferred(msgspec.Struct, frozen=True):
    message: str
    old_owner: FormerOwner
    new_owner: NewOwner


class SelectingAccount(msgspec.Struct, frozen=True):
    id: UUID
    email: str
    is_platform_owner: bool
    created_at: datetime


class OrganizationSelected(msgspec.Struct, frozen=True):
    user: SelectingAccount
    membership: MembershipRecord
    access_token: str
    refresh_token: str


@endpoint.get("/api/organizations/{org_slug}/members", caller=able(Capability.MEMBERS_VIEW), tags=_TAGS)
async def list_members(call: Call[None, MembersQuery, MembersPath, Member], services: Services) -> MembersAnswer:
    """The members, whoever came first first

    `total` is the number of all members, or of those in the role that is asked for; of these 10 000 are counted at most.
    """
    query = call.query
    found = await services.members.list(call.caller, page_of(query), query.role)
    return MembersAnswer(
        [
            MemberSummary(
                MemberAccount(one.membership.user, one.email.address, one.is_platform_owner),
                MembershipSummary(one.membership.id, one.membership.role, one.membership.created_at),
            )
            for one in found.members
        ],
        Pagination(query.page, query.limit, found.total),
        MemberLimits(found.limit.max_users, found.limit.source),
    )


@endpoint.patch(_MEMBER, caller=OWNER, refuses=(BadRequest,), tags=_TAGS)
async def change_member_role(call: Call[RoleChange, None, MemberPath, Member], services: Services) -> MemberChanged:
    """Give a member another role

    `admin`, `member`, or the slug of a role of the organization's own. What they may do changes with their next request. Nobody changes
    their own role, and `owner` is given by transferring the ownership.
    """
    changed = await services.members.change_role(call.caller, UserId(call.path.user_id), call.body.role, call.actor)
    return MemberChanged(ChangedAccount(changed.account.id, changed.account.email.address), membership_record(changed.membership))


@endpoint.post(_MEMBER, caller=able(Capability.MEMBERS_MANAGE), refuses=(BadRequest,), tags=_TAGS)
async def remove_member(call: Call[None, None, MemberPath, Member], services: Services) -> Message:
    """Remove a member

    Their sessions in the organization, and the refresh tokens, are dead on the next request; those elsewhere go on. The owner and oneself
    cannot be removed, nor can anybody who may do what the caller may not.
    """
    await services.members.remove(call.caller, UserId(call.path.user_id), call.actor)
    return Message("The member is removed")


@endpoint.post("/api/organizations/{org_slug}/transfer-ownership", caller=OWNER, refuses=(BadRequest,), tags=_TAGS)
async def transfer_ownership(call: Call[Transfer, None, MembersPath, Member], services: Services) -> Transferred:
    """Make another member the owner

    The caller becomes an admin.
    """
    new = UserId(call.body.new_owner_user_id)
    await services.members.transfer_ownership(call.caller, new, call.actor)
    return Transferred(
        "The ownership is transferred", FormerOwner(call.caller.user, BuiltInRole.ADMIN.value), NewOwner(new, BuiltInRole.OWNER.value)
    )


@endpoint.post("/api/organizations/{org_slug}/select", caller=OWN_PERSON, refuses=(NotFound, OrganizationNotActive), tags=_TAGS)
async def select_organization(call: Call[None, None, MembersPath], services: Services) -> OrganizationSelected:
    """Go on in an organization

    Tokens of a session in the organization, beside the one of the token that this is called with, which may be for the platform or for
    another organization. It ends when that one would have ended at the latest.
    """
    selected = await services.members.select(call.caller, call.path.org_slug, call.actor)
    account = selected.account
    return OrganizationSelected(
        SelectingAccount(account.id, account.email.address, account.is_platform_owner, account.created_at),
        membership_record(selected.membership),
        selected.tokens.access_token.reveal(),
        selected.tokens.refresh_token.reveal(),
    )


def membership_record(membership: Membership) -> MembershipRecord:
    return MembershipRecord(membership.id, membership.organization, membership.user, membership.role, membership.created_at)
