"""The store of memberships, and of the relations that follow from them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.pages import Page
from core.domain.tenancy.members import (
    Addressee,
    DeclinedOwnership,
    Entry,
    ListedMembership,
    MemberDetail,
    MemberList,
    Membership,
    UnconfirmedOwnership,
)
from core.domain.tenancy.roles import Assignable, Capability
from core.frozen import Frozen


class KnownMember(Frozen):
    account: Account
    membership: Membership
    capabilities: frozenset[Capability]
    organization_is_active: bool
    organization_name: str
    is_unconfirmed_owner: bool = False
    """See `UnconfirmedOwnership`."""


class Handed(Frozen):
    """The organization that a member has become the owner of."""

    organization_slug: str
    organization_name: str


class MemberStore(Protocol):
    """Outside a unit of work, `list`, `detail`, `listed` and `listed_by_link` are one statement and one round trip each. The other methods
    need a unit of work in which the caller has already locked the organization. A change of a membership changes its relations in the same
    statement. Only PostgreSQL implements `MemberStore`.
    """

    async def list(self, organization: OrganizationId, page: Page, role: str | None, search: str = "") -> MemberList:
        """Members in this role, or all of them, oldest membership first. With a text, those whose address contains it, or whose name does,
        if the membership is their own. The total for one role or one text is counted up to `MOST_COUNTED`.
        """

    async def detail(self, organization: OrganizationId, user: UserId) -> MemberDetail | None:
        """None for somebody who is no member."""

    async def listed(self, user: UserId, domain: str, slug: str | None, most: int) -> Sequence[ListedMembership]:
        """The memberships that others have made for this person, who has not confirmed them, the oldest first: in all organizations, or in
        the one with this slug. `domain` is that of the person's address.
        """

    async def listed_by_link(self, digest: bytes, most: int) -> Sequence[ListedMembership]:
        """As `listed`, for the person of a link that chooses a password, while their account has none."""

    async def add(self, membership: Membership) -> bool:
        """Ends the sessions that are left of an earlier membership. The account is held before. False when the person is a member already:
        of two callers, one gets False. False also when the account has no person any more.
        """

    async def find(self, organization: OrganizationId, user: UserId) -> KnownMember | None: ...

    async def hold(self, organization: OrganizationId, *users: UserId) -> Mapping[UserId, KnownMember]:
        """Holds the organization, as `OrganizationStore.hold` does, and returns those of these people who are members now, in one round
        trip. An organization that is being deleted has no members.
        """

    async def belongs_here_alone(self, organization: OrganizationId, user: UserId) -> bool:
        """Whether the organization made this member's account, and nothing else holds the account: no other organization, no service of
        another organization, no office in the platform.
        """

    async def enter(self, slug: str, user: UserId, session: SessionId) -> Entry | None:
        """How the person stands to the organization with this slug. The account is held. The membership stays until the unit of work ends:
        a removal waits. None when there is no such organization.
        """

    async def change_role(self, organization: OrganizationId, user: UserId, role: Assignable) -> Membership | None:
        """None when the person is not a member."""

    async def remove(self, organization: OrganizationId, user: UserId) -> bool:
        """The person's sessions in the organization stay: each request asks for the membership. False when the person is not a member: of
        two callers, one gets True.
        """

    async def release(self, organization: OrganizationId, user: UserId) -> None:
        """From now on, the account counts as not made by this organization or its services. Called with the account held."""

    async def confirm(
        self, user: UserId, organizations: Collection[OrganizationId], session: SessionId | None, at: datetime
    ) -> Sequence[Membership]:
        """The person's memberships in these organizations become their own. Returns those that were not their own before: of two callers,
        one gets each. Neither the organization nor the account has to be held. Memberships that the session may not confirm stay as they
        are: somebody has proved the address, or a provider of the same organization has opened the session. None: a mailed link is used.
        """

    async def listed_among(self, user: UserId, organizations: Collection[OrganizationId]) -> bool:
        """Whether the person has not confirmed a membership in one of these organizations."""

    async def hold_listed(self, organization: OrganizationId, user: UserId) -> KnownMember | None:
        """Holds the organization, the account and the membership. None when the membership is not one that others have made and the person
        has not confirmed.
        """

    async def transfer_ownership(self, organization: OrganizationId, old: UserId, new: UserId, at: datetime) -> Handed:
        """Both are members. The new owner becomes the owner, and has not confirmed it yet; the old owner becomes an admin. After `hold`."""


class OwnershipStore(Protocol):
    """Ownership that its owner has not confirmed. Every method needs a unit of work. Only PostgreSQL implements `OwnershipStore`."""

    async def confirm(self, ownership: UnconfirmedOwnership, at: datetime) -> bool:
        """False when this person is not the owner, or has confirmed the ownership: of two callers, one gets True."""

    async def hold(self, organization: OrganizationId) -> None:
        """Holds the organization, then the accounts of its owner and of the former owner, and their memberships."""

    async def hold_all(self, user: UserId) -> None:
        """Holds the organizations whose ownership this person has not confirmed, by their ids."""

    async def decline(self, ownership: UnconfirmedOwnership, reason: str, at: datetime) -> DeclinedOwnership | None:
        """The former owner becomes the owner again, and this person has the role of before. If there is no former owner who is an active
        member, the organization has no owner, and is suspended for this reason. After `hold`. None when this person is not the owner, or
        has confirmed the ownership: of two callers, one gets the organization.
        """

    async def governors(self) -> Sequence[Addressee]:
        """The active owners of the platform, the oldest accounts first, `MOST_ADDRESSEES` at most."""
