"""The members of an organization: listing and changing them, transferring the ownership, and opening a session in the organization."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, NotFound, OrganizationNotActive, ReauthenticationRequired, SecondFactorRequired, TermsRequired
from core.domain.identifiers import UserId
from core.domain.identity.proofs import StepUp
from core.domain.tenancy.members import LONGEST_SEARCH, ListedMember, Member, Membership, MembershipOrigin, OwnershipAnswer, knows_of_office
from core.domain.tenancy.roles import LONGEST_SLUG, BuiltInRole, Capability
from core.domain.tenancy.tiers import LimitSource
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Message
from entrypoints.http.machinery.callers import OWN_PERSON, OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    AccessTokenText,
    CreatedAt,
    EmailAddress,
    Id,
    IsPlatformOwner,
    MessageText,
    OrganizationPath,
    OrganizationUuid,
    Pagination,
    Paging,
    PersonName,
    RefreshTokenText,
    SlugOfRole,
    UserUuid,
    example,
    page_of,
)
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.identity.mfa import MfaForceDisabled, StatedReason

_TAGS = ("members",)
_SELECTION = (NotFound, OrganizationNotActive, ReauthenticationRequired, SecondFactorRequired, TermsRequired)
_MEMBER = "/api/organizations/{org_slug}/members/{user_id}"


class MemberPath(OrganizationPath, frozen=True):
    user_id: UserUuid


class MembersQuery(Paging, frozen=True, kw_only=True):
    """A filter on members. `role` is the slug of a built-in role, or of one of the organization's own."""

    role: Annotated[str, msgspec.Meta(max_length=LONGEST_SLUG, examples=["admin"])] | None = None
    """Return only members with this role."""
    search: Annotated[str, msgspec.Meta(max_length=LONGEST_SEARCH, examples=["ada@"])] = ""
    """Return only members whose email address or name contains this text."""


class MembershipRecord(msgspec.Struct, frozen=True):
    """A person's membership in an organization."""

    id: Id
    org_id: OrganizationUuid
    user_id: UserUuid
    role: SlugOfRole
    created_at: CreatedAt


class MembershipSummary(msgspec.Struct, frozen=True):
    """The membership."""

    id: Id
    role: SlugOfRole
    created_at: CreatedAt


class MemberAccount(msgspec.Struct, frozen=True):
    """The person's account. The organization sees the name of confirmed members only."""

    id: Id
    email: EmailAddress
    is_platform_owner: IsPlatformOwner
    name: PersonName | None


class MemberSummary(msgspec.Struct, frozen=True):
    """A member of the organization."""

    user: MemberAccount
    """The person's account."""
    membership: MembershipSummary
    """The membership."""


class MemberDetailRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A member, with the details that the organization can see."""

    user: MemberAccount
    """The person's account."""
    membership: MembershipSummary
    """The membership."""
    came_by: MembershipOrigin
    """How the person became a member. `added` while the membership is unconfirmed."""
    own_since: datetime | None
    """When the person created or confirmed the membership; null while it is unconfirmed."""
    mfa_enabled: Annotated[bool, example(True)] | None
    """Whether the person has MFA enabled; null for unconfirmed members."""
    has_devices: Annotated[bool, example(True)] | None
    """Whether the person has signed in on devices; null for unconfirmed members."""
    active_sessions: Annotated[int, example(2)]
    """The number of sessions that the person has in the organization and its services."""
    teams: Annotated[Sequence[str], example(["support"])]
    """The slugs of the person's teams."""


class MemberLimits(msgspec.Struct, frozen=True):
    """The limit on members."""

    max_users: Annotated[int, example(100)]
    """The maximum number of members."""
    source: LimitSource
    """The source of the limit: the organization itself, its tier, or the default."""


class MemberListAnswer(msgspec.Struct, frozen=True):
    """One page of members."""

    members: Sequence[MemberSummary]
    """The members on this page, the longest-standing first."""
    pagination: Pagination
    """The position of this page in the list."""
    limits: MemberLimits
    """The limit on members."""


class RoleChange(msgspec.Struct, frozen=True):
    """The new role."""

    role: SlugOfRole
    """The slug of the role: `admin`, `member`, or a custom role."""


class ChangedAccount(msgspec.Struct, frozen=True):
    """The member's account."""

    id: Id
    email: EmailAddress


class MemberChanged(msgspec.Struct, frozen=True):
    """The member after the change."""

    user: ChangedAccount
    """The member's account."""
    membership: MembershipRecord
    """The membership after the change."""


class OwnershipTransfer(msgspec.Struct, frozen=True):
    """The next owner."""

    new_owner_user_id: UUID
    """The user who becomes the owner. The user must be a member."""


class FormerOwner(msgspec.Struct, frozen=True):
    """The previous owner."""

    user_id: UserUuid
    new_role: Annotated[str, example("admin")]
    """The slug of the role that the previous owner has now."""


class NewOwner(msgspec.Struct, frozen=True):
    """The new owner."""

    user_id: UserUuid
    role: SlugOfRole


class OwnershipTransferred(msgspec.Struct, frozen=True):
    """The organization has a new owner."""

    message: MessageText
    old_owner: FormerOwner
    """The previous owner."""
    new_owner: NewOwner
    """The new owner."""


class OwnershipReply(msgspec.Struct, frozen=True):
    """The new owner's response."""

    answer: OwnershipAnswer
    """`confirm` accepts the ownership; `decline` rejects it."""


class OwnAccount(msgspec.Struct, frozen=True):
    """Your account."""

    id: Id
    email: EmailAddress
    is_platform_owner: IsPlatformOwner
    created_at: CreatedAt


class OrganizationSelected(msgspec.Struct, frozen=True):
    """A session in the organization."""

    user: OwnAccount
    """Your account."""
    membership: MembershipRecord
    """Your membership in the organization."""
    access_token: AccessTokenText
    """The access token for the organization."""
    refresh_token: RefreshTokenText


@endpoint.get(
    "/api/organizations/{org_slug}/members",
    caller=able(Capability.MEMBERS_VIEW, impersonated=True),
    keys=True,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def list_members(call: Call[None, MembersQuery, OrganizationPath, Member], postern: Postern) -> MemberListAnswer:
    """List the members of an organization

    Return the members, the longest-standing first. Without a filter, `total` is the number of all members. With a filter, it is the number
    of matches, and counting stops at 10 000. Searches within an organization run one at a time. If too many searches are waiting, the
    response is 503.
    """
    query = call.query
    found = await postern.tenancy.members.list(call.caller, page_of(query), query.role, query.search)
    return MemberListAnswer(
        [
            MemberSummary(
                _account(call.caller, one),
                MembershipSummary(one.membership.id, one.membership.role, one.membership.created_at),
            )
            for one in found.members
        ],
        Pagination(query.page, query.limit, found.total),
        MemberLimits(found.limit.max_users, found.limit.source),
    )


@endpoint.get(_MEMBER, caller=able(Capability.MEMBERS_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def get_member(call: Call[None, None, MemberPath, Member], postern: Postern) -> MemberDetailRecord:
    """Get a member

    Return the membership and the account of a member. For an unconfirmed member, the details of the account are not included.
    """
    found = await postern.tenancy.members.get(call.caller, UserId(call.path.user_id))
    one = found.listed
    return MemberDetailRecord(
        user=_account(call.caller, one),
        membership=MembershipSummary(one.membership.id, one.membership.role, one.membership.created_at),
        came_by=found.came_by,
        own_since=one.membership.own_since,
        mfa_enabled=found.has_second_factor,
        has_devices=found.has_devices,
        active_sessions=found.sessions,
        teams=found.teams,
    )


@endpoint.patch(_MEMBER, caller=OWNER_IN_PERSON, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def change_member_role(call: Call[RoleChange, None, MemberPath, Member], postern: Postern) -> MemberChanged:
    """Change a member's role

    The new role takes effect with the member's next request. You cannot change your own role. To make someone the `owner`, transfer the
    ownership.
    """
    changed = await postern.tenancy.members.change_role(call.caller, UserId(call.path.user_id), call.body.role, call.actor)
    return MemberChanged(ChangedAccount(changed.account.id, changed.account.email.address), membership_record(changed.membership))


@endpoint.post(
    _MEMBER, caller=able(Capability.MEMBERS_MANAGE, impersonated=True), keys=True, refuses=(BadRequest,), tags=_TAGS, verb="member remove"
)
async def remove_member(call: Call[None, None, MemberPath, Member], postern: Postern) -> Message:
    """Remove a member

    From the next request on, the member's access tokens and refresh tokens for the organization no longer work. Sessions in other places
    continue. You cannot remove yourself, the owner, or a member who has permissions that you do not have.
    """
    await postern.tenancy.members.remove(call.caller, UserId(call.path.user_id), call.actor)
    return Message("The member is removed")


@endpoint.delete(
    f"{_MEMBER}/mfa",
    caller=able(Capability.MEMBERS_MANAGE, impersonated=False),
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def disable_mfa_of_member(call: Call[StatedReason, StatedReason, MemberPath, Member], postern: Postern) -> MfaForceDisabled:
    """Remove a member's MFA

    Use this endpoint if a member has lost access to MFA. It works only for accounts that your organization created, by an invitation or a
    directory, and that nothing else uses. For all other accounts, ask a platform owner. The reason is required, in the body or in the
    query; the audit log stores it. Postern notifies the member by email. The member then signs in without MFA. The request can be repeated
    safely. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    reason = call.body.reason if call.body.reason is not None else call.query.reason
    disabled = await postern.tenancy.member_factors.disable(call.caller, UserId(call.path.user_id), reason or "", call.actor)
    return MfaForceDisabled.done(disabled=disabled)


@endpoint.post(
    "/api/organizations/{org_slug}/transfer-ownership",
    caller=OWNER_IN_PERSON,
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest,),
    tags=_TAGS,
    verb="",
)
async def transfer_ownership(call: Call[OwnershipTransfer, None, OrganizationPath, Member], postern: Postern) -> OwnershipTransferred:
    """Transfer the ownership of an organization

    The new owner must be a member. You become an admin, and the new owner gets an email. The new owner confirms the ownership with the
    first action that only an owner can do. Until then the new owner can decline it, which makes you the owner again. Until then you also
    get the emails for owners. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    new = UserId(call.body.new_owner_user_id)
    await postern.tenancy.members.transfer_ownership(call.caller, new, call.actor)
    return OwnershipTransferred(
        "The ownership is transferred", FormerOwner(call.caller.user, BuiltInRole.ADMIN.value), NewOwner(new, BuiltInRole.OWNER.value)
    )


@endpoint.post("/api/organizations/{org_slug}/ownership", caller=OWN_PERSON, limit=UNLIMITED, refuses=(BadRequest, NotFound), tags=_TAGS)
async def answer_ownership(call: Call[OwnershipReply, None, OrganizationPath], postern: Postern) -> Message:
    """Confirm or decline the ownership of an organization

    Call this endpoint as the owner after a transfer, or as the owner of an organization that was moved to this installation. If you
    decline, the former owner becomes the owner again. If no former owner is an active member, the organization is suspended, and the
    platform owners decide. You stay a member, in your previous role. Once you have confirmed the ownership, you can only transfer it. The
    request can be repeated safely.
    """
    ownerships = postern.tenancy.ownerships
    organization = (await ownerships.of(call.caller, call.path.org_slug)).organization.id
    if call.body.answer is OwnershipAnswer.CONFIRM:
        await ownerships.confirm(call.caller, organization)
        return Message("The organization is yours")
    await ownerships.decline(call.caller, organization)
    return Message("The organization is not yours")


@endpoint.post("/api/organizations/{org_slug}/select", caller=OWN_PERSON, refuses=_SELECTION, tags=_TAGS)
async def select_organization(call: Call[None, None, OrganizationPath], postern: Postern) -> OrganizationSelected:
    """Get tokens for an organization

    Open a session in the organization, in addition to the session of your token. Your token can be for the platform or for another
    organization. When its session ends, the new session ends, too. The organization's sign-in rules can require MFA or a more recent
    sign-in first.
    """
    selected = await postern.tenancy.members.select(call.caller, call.path.org_slug, call.actor)
    account = selected.account
    return OrganizationSelected(
        OwnAccount(account.id, account.email.address, account.is_platform_owner, account.created_at),
        membership_record(selected.membership),
        selected.tokens.access_token.reveal(),
        selected.tokens.refresh_token.reveal(),
    )


def _account(reader: Member, one: ListedMember) -> MemberAccount:
    user = one.membership.user
    governs = knows_of_office(reader, user, is_platform_owner=one.is_platform_owner)
    return MemberAccount(user, one.email.address, governs, one.name)


def membership_record(membership: Membership) -> MembershipRecord:
    return MembershipRecord(membership.id, membership.organization, membership.user, membership.role, membership.created_at)
