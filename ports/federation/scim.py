"""The stores of SCIM: tokens (as digests), a directory's people, the teams that it fills, and the last exchanges."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from core.domain.branding import Branding
from core.domain.federation.scim.filters import Filter
from core.domain.federation.scim.groups import DirectorySettings, Group, GroupChange, ScimGrouping
from core.domain.federation.scim.tokens import ScimExchange, ScimHolder, ScimToken
from core.domain.federation.scim.users import HeldUser, ProvisionedUser, ScimProfile
from core.domain.identifiers import MembershipId, OrganizationId, ScimTokenId, TeamId, UserId
from core.domain.identity.accounts import Account
from core.domain.mail import Email
from core.domain.requests import Listed
from core.domain.tenancy.management_keys import KnownKey
from core.domain.tenancy.teams import Team
from core.domain.tenancy.tiers import UserLimit
from core.frozen import Frozen


class ScimExchangeRecorder(Protocol):
    """Requests call it: it never waits and never fails. A full buffer drops the exchange. An actor implements it."""

    def record(self, exchange: ScimExchange) -> None: ...


class ScimExchangeStore(Protocol):
    """Outside any unit of work."""

    async def add(self, exchanges: Sequence[ScimExchange]) -> None:
        """Adds the exchanges in parts. The oldest exchanges of each organization go when there are too many."""

    async def list(self, organization: OrganizationId, limit: int, *, refused: bool) -> Sequence[ScimExchange]:
        """Newest first; with `refused`, only refused exchanges."""


class ShownMembers(Frozen):
    """The members of some teams as JSON, each team's as a list. A team whose members went beyond the limit is left out, as are the teams
    after it.
    """

    by_team: dict[UUID, bytes]


class DirectoryTeamStore(Protocol):
    """Outside a unit of work, `settings`, `list`, `find` and `members` are one statement and one round trip each. The other methods need a
    unit of work that holds the organization, which `find_for_update` does.
    """

    async def settings(self, organization: OrganizationId) -> DirectorySettings: ...

    async def find_grouping_for_update(self, organization: OrganizationId) -> ScimGrouping | None:
        """Holds the organization. None when the organization is gone."""

    async def save_settings(self, organization: OrganizationId, settings: DirectorySettings, at: datetime) -> None: ...

    async def has_any(self, organization: OrganizationId) -> bool:
        """Whether the organization has a team that its directory fills."""

    async def list(self, organization: OrganizationId, members: Sequence[UserId]) -> Sequence[tuple[Team, Collection[UserId]]]:
        """The teams that the directory fills, by id, each with those of `members` who are in it."""

    async def find(self, organization: OrganizationId, team: TeamId) -> Team | None:
        """None when the organization's directory fills no such team."""

    async def find_for_update(self, organization: OrganizationId, team: TeamId) -> Team | None:
        """Holds the organization. None when the organization's directory fills no such team."""

    async def members(self, teams: Sequence[Team], users_address: str, most: int | None) -> ShownMembers:
        """The members of these teams, each with an address below `users_address`. No more than `most` altogether; None for all."""

    async def has_external_id(self, organization: OrganizationId, external_id: str, besides: TeamId | None) -> bool:
        """Whether a team, besides this one, has this id in its directory."""

    async def known(self, organization: OrganizationId, users: Collection[UserId]) -> int:
        """How many of these people the directory knows."""

    async def others(self, team: Team, users: Collection[UserId], most: int) -> Sequence[UserId]:
        """Members of the team besides these people, `most` at most."""


class ScimTokenLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work. Look-ups of tokens by many requests share one statement,
    so they stay apart from `ScimTokenStore`.
    """

    async def find(self, digest: bytes) -> KnownKey[ScimHolder] | None:
        """Every request of a directory asks here. None when there is no such token, or its organization is gone."""

    async def list(self, organization: OrganizationId) -> Sequence[ScimToken]:
        """Newest first, expired tokens included."""


class ScimTokenStore(Protocol):
    """All methods need a unit of work in which the caller has locked the organization. Only PostgreSQL implements `ScimTokenStore`."""

    async def add(self, token: ScimToken, digest: bytes) -> int | None:
        """Returns how many tokens the organization had before. None when another token has this prefix; then nothing is added."""

    async def delete(self, organization: OrganizationId, token: ScimTokenId) -> ScimToken | None:
        """Returns the deleted token. None when the organization has no such token: of two callers, one gets None."""


class Capacity(Frozen):
    """How many members the organization has, and how many it may have."""

    members: int
    limit: UserLimit


class Newcomer(Frozen):
    """An address that a directory brings. `account` is None when nobody has the address."""

    capacity: Capacity
    branding: Branding
    account: Account | None
    is_known: bool
    """The directory has the person already, or the person is a member anyway."""
    known: int
    """How many people the directory knows, active and inactive."""
    is_own: bool = False
    """See `HeldUser.is_own`."""


class Touched(Frozen):
    """The group, and the people whom a change of the group concerns."""

    group: Group
    capacity: Capacity
    users: Mapping[UserId, HeldUser]
    known: int
    """How many of the people who are to be in the group the directory knows."""


class AddressChange(StrEnum):
    DONE = "done"
    KNOWN = "known"
    """Another person whom the directory knows has the address."""
    TAKEN = "taken"
    """Somebody else has the address."""


class Order(Frozen):
    """`by` is one of the attributes in `SORTABLE`."""

    by: str = "id"
    descending: bool = False


SORTABLE = ("id", "userName", "externalId", "displayName", "meta.created", "meta.lastModified")


class ProvisionedUserStore(Protocol):
    """Outside a unit of work, `find`, `list` and `group` are one statement and one round trip each. The other methods need a unit of work.
    Each method `…_for_update` locks the organization and then the accounts, so that nobody else changes them, and nothing new refers to
    them, until the unit of work ends. All locks are taken in one order.
    """

    async def find(self, organization: OrganizationId, user: UserId) -> ProvisionedUser | None: ...

    async def list(
        self, organization: OrganizationId, wanted: Filter | None, order: Order, offset: int, limit: int
    ) -> Listed[ProvisionedUser]:
        """People of the directory, with their exact number."""

    async def group(self, organization: OrganizationId, users_address: str | None, members: Sequence[UserId]) -> "FoundGroup | None":
        """The group with its members as JSON, each with an address below `users_address`; without members if that is None. `included` says
        which of the people named in `members` are in the group.
        """

    async def find_for_update(self, organization: OrganizationId, user: UserId) -> tuple[Capacity, HeldUser] | None:
        """None for a person whom the directory does not know."""

    async def find_all_for_update(self, organization: OrganizationId, users: Collection[UserId]) -> Sequence[tuple[Capacity, HeldUser]]:
        """Those of these people whom a directory knows."""

    async def find_newcomer_for_update(self, organization: OrganizationId, email: Email) -> Newcomer | None:
        """None when the organization is gone."""

    async def find_group_for_update(self, organization: OrganizationId, change: GroupChange) -> Touched | None:
        """The people whom the change concerns. People who are in the group and are to stay in it are left out. None when the organization
        is gone.
        """

    async def enter(self, organization: OrganizationId, users: Mapping[UserId, MembershipId], at: datetime) -> None:
        """The people become members. An account that a directory has deactivated is active again. After `find_for_update`."""

    async def leave(self, organization: OrganizationId, users: Collection[UserId], at: datetime, *, deactivated: bool) -> None:
        """The people are no longer members, and their sessions in the organization and its services end. For people who were no members,
        only `deactivated` is recorded. After `find_for_update`.
        """

    async def deactivate_accounts(self, organization: OrganizationId, users: Collection[UserId], at: datetime) -> None:
        """Deactivates the accounts until the people are members again. After `find_for_update`."""

    async def change_address(self, organization: OrganizationId, user: UserId, email: Email, at: datetime) -> AddressChange:
        """The new address is unverified. After `find_for_update`."""

    async def list_in_group(self, organization: OrganizationId, users: Collection[UserId], at: datetime, *, listed: bool) -> None:
        """Records whether deactivated people are in the group. After `find_for_update`."""

    async def save(self, organization: OrganizationId, user: UserId, profile: ScimProfile, at: datetime) -> None:
        """Saves the directory's profile of the person, but not the address and whether they are active. After `enter` or `leave`."""

    async def list_by(self, token: ScimTokenId, organization: OrganizationId, users: Collection[UserId]) -> None:
        """The directory that holds this token lists the people from now on. After `save`, `enter` or `leave`."""

    async def forget(self, organization: OrganizationId, user: UserId) -> None:
        """After `leave`."""

    async def save_group(self, organization: OrganizationId, external_id: str | None, at: datetime) -> None: ...


class FoundGroup(Frozen):
    group: Group
    members: bytes | None
    included: frozenset[UserId]
