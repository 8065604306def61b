"""Where the people of a directory are kept: members of the organization, and those whom it has deactivated or taken out of the group."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from core.domain.branding import Branding
from core.domain.email import Email
from core.domain.federation.scim.filters import Filter
from core.domain.federation.scim.groups import Group, GroupChange
from core.domain.federation.scim.users import HeldUser, ProvisionedUser, ScimProfile
from core.domain.identifiers import MembershipId, OrganizationId, UserId
from core.domain.identity.accounts import Account
from core.domain.pages import Listed
from core.domain.tenancy.tiers import UserLimit
from core.frozen import Frozen


class Capacity(Frozen):
    """How many members the organization has, and how many it may have."""

    members: int
    limit: UserLimit


class Newcomer(Frozen):
    """An address that a directory brings. `account` is None if nobody has it."""

    capacity: Capacity
    branding: Branding
    account: Account | None
    is_known: bool
    """The directory has them already, or they are a member anyway."""
    known: int
    """How many the directory knows, active and inactive."""


class Touched(Frozen):
    """The group, and those whom a change of it concerns."""

    group: Group
    capacity: Capacity
    users: Mapping[UserId, HeldUser]
    known: int
    """How many of those who are to be in the group the directory knows."""


class AddressChange(StrEnum):
    DONE = "done"
    KNOWN = "known"
    """Somebody else whom the directory knows has the address."""
    TAKEN = "taken"
    """Somebody else has it."""


class Order(Frozen):
    """`by` is one of the attributes that `ports` names in `SORTABLE`."""

    by: str = "id"
    descending: bool = False


SORTABLE = ("id", "userName", "externalId", "displayName", "meta.created", "meta.lastModified")


class ProvisionedUserStore(Protocol):
    """Outside a unit of work, `get`, `list` and `group` are one statement and one round trip each. The other methods need a unit of work.
    Each `hold` holds the organization and the accounts first, so that nothing else happens to them, and nothing new refers to them, until
    the unit of work ends; all locks are taken in one order. Only PostgreSQL implements it.
    """

    async def get(self, organization: OrganizationId, user: UserId) -> ProvisionedUser | None: ...

    async def list(
        self, organization: OrganizationId, wanted: Filter | None, order: Order, offset: int, limit: int
    ) -> Listed[ProvisionedUser]:
        """With their exact number."""

    async def group(self, organization: OrganizationId, users_address: str | None, members: Sequence[UserId]) -> "FoundGroup | None":
        """With the members as JSON, each with its address below this one; without them if that is None. Says which of the people named are
        in the group.
        """

    async def hold(self, organization: OrganizationId, user: UserId) -> tuple[Capacity, HeldUser] | None:
        """None for a person whom the directory does not know."""

    async def hold_address(self, organization: OrganizationId, email: Email) -> Newcomer | None:
        """None when the organization is gone."""

    async def hold_group(self, organization: OrganizationId, change: GroupChange) -> Touched | None:
        """Of those who are to be in the group, and are, nobody is returned. None when the organization is gone."""

    async def enter(self, organization: OrganizationId, users: Mapping[UserId, MembershipId], at: datetime) -> None:
        """They become members. An account that a directory has deactivated is active again. After `hold`."""

    async def leave(self, organization: OrganizationId, users: Collection[UserId], at: datetime, *, deactivated: bool) -> None:
        """They are no longer members, and their sessions in the organization and its services end; or they were none, and it is noted
        whether they are deactivated. After `hold`.
        """

    async def deactivate_accounts(self, organization: OrganizationId, users: Collection[UserId], at: datetime) -> None:
        """Until they are members again. After `hold`."""

    async def change_address(self, organization: OrganizationId, user: UserId, email: Email, at: datetime) -> AddressChange:
        """The new address is unverified. After `hold`."""

    async def list_in_group(self, organization: OrganizationId, users: Collection[UserId], at: datetime, *, listed: bool) -> None:
        """Whether those who are deactivated are in the group. After `hold`."""

    async def save(self, organization: OrganizationId, user: UserId, profile: ScimProfile, at: datetime) -> None:
        """What the directory says of them, but for their address and whether they are active. After `enter` or `leave`."""

    async def forget(self, organization: OrganizationId, user: UserId) -> None:
        """After `leave`."""

    async def save_group(self, organization: OrganizationId, external_id: str | None, at: datetime) -> None: ...


class FoundGroup(Frozen):
    group: Group
    members: bytes | None
    included: frozenset[UserId]
