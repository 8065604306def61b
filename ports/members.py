"""Where memberships are kept, and the relations that come of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from core.domain.accounts import Account
from core.domain.identifiers import OrganizationId, UserId
from core.domain.members import Entry, MemberList, Membership
from core.domain.pages import Page
from core.domain.roles import Assignable, Capability


@dataclass(frozen=True, slots=True)
class KnownMember:
    account: Account
    membership: Membership
    capabilities: frozenset[Capability]


class MemberStore(Protocol):
    """Part of the unit of work. What changes a membership changes its relations in the same statement. The organization is held first."""

    async def add(self, membership: Membership) -> bool:
        """False when they are a member already: of two callers, one gets False."""

    async def find(self, organization: OrganizationId, user: UserId) -> KnownMember | None: ...

    async def hold(self, organization: OrganizationId, *users: UserId) -> Mapping[UserId, KnownMember]:
        """Hold the organization, as `OrganizationStore.hold` does, and say who of these is a member of it now, in one round trip. Nobody is
        when it is being deleted.
        """

    async def enter(self, slug: str, user: UserId) -> Entry | None:
        """How they stand to the organization of this slug. The membership stays until the unit of work ends: whoever removes it waits, and
        then finds the session that is opened meanwhile. None when there is no such organization.
        """

    async def change_role(self, organization: OrganizationId, user: UserId, role: Assignable) -> Membership | None:
        """None when they are no member."""

    async def remove(self, organization: OrganizationId, user: UserId) -> bool:
        """With their sessions in the organization, not those in its services. False when they are no member: of two, one gets True."""

    async def transfer_ownership(self, organization: OrganizationId, old: UserId, new: UserId, at: datetime) -> None:
        """Of two members: the new one is the owner, the old one an admin. After `hold`."""


class MemberLookup(Protocol):
    """Outside any unit of work: one statement."""

    async def list(self, organization: OrganizationId, page: Page, role: str | None) -> MemberList:
        """Those of this role, or all; whoever came first, first. The total of one role is counted up to `MOST_COUNTED`."""
