"""The store of the teams that directories fill, as groups of SCIM."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.federation.scim.groups import DirectorySettings, ScimGrouping
from core.domain.identifiers import OrganizationId, TeamId, UserId
from core.domain.tenancy.teams import Team
from core.frozen import Frozen


class ShownMembers(Frozen):
    """The members of some teams as JSON, each team's as a list. A team whose members went beyond the limit is left out, as are the teams
    after it.
    """

    by_team: dict[UUID, bytes]


class DirectoryTeamStore(Protocol):
    """Outside a unit of work, `settings`, `list`, `find` and `members` are one statement and one round trip each. The other methods need a
    unit of work that holds the organization, which `hold` does.
    """

    async def settings(self, organization: OrganizationId) -> DirectorySettings: ...

    async def hold_grouping(self, organization: OrganizationId) -> ScimGrouping | None:
        """Holds the organization. None when the organization is gone."""

    async def save_settings(self, organization: OrganizationId, settings: DirectorySettings, at: datetime) -> None: ...

    async def has_any(self, organization: OrganizationId) -> bool:
        """Whether the organization has a team that its directory fills."""

    async def list(self, organization: OrganizationId, members: Sequence[UserId]) -> Sequence[tuple[Team, Collection[UserId]]]:
        """The teams that the directory fills, by id, each with those of `members` who are in it."""

    async def find(self, organization: OrganizationId, team: TeamId) -> Team | None:
        """None when the organization's directory fills no such team."""

    async def hold(self, organization: OrganizationId, team: TeamId) -> Team | None:
        """Holds the organization. None when the organization's directory fills no such team."""

    async def members(self, teams: Sequence[Team], users_address: str, most: int | None) -> ShownMembers:
        """The members of these teams, each with an address below `users_address`. No more than `most` altogether; None for all."""

    async def has_external_id(self, organization: OrganizationId, external_id: str, besides: TeamId | None) -> bool:
        """Whether a team, besides this one, has this id in its directory."""

    async def known(self, organization: OrganizationId, users: Collection[UserId]) -> int:
        """How many of these people the directory knows."""

    async def others(self, team: Team, users: Collection[UserId], most: int) -> Sequence[UserId]:
        """Members of the team besides these people, `most` at most."""
