"""The store of teams and their members."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, RoleId, TeamId, UserId
from core.domain.tenancy.teams import Team, TeamMember


class TeamStore(Protocol):
    """Outside a unit of work, `list`, `find`, `slugs_of` and `members` are one statement and one round trip each. The other methods need a
    unit of work that holds the organization (`MemberStore.hold`): no team, and no member of one, changes without this lock.
    """

    async def list(self, organization: OrganizationId) -> Sequence[Team]:
        """All teams of the organization, by slug."""

    async def find(self, organization: OrganizationId, slug: str) -> Team | None:
        """None when the organization has no such team."""

    async def slugs_of(self, organization: OrganizationId, user: UserId, most: int) -> Sequence[str]:
        """The slugs of the person's teams in the organization, in their order, and no more than `most`."""

    async def members(self, team: Team, after: UserId | None, limit: int) -> Sequence[TeamMember]:
        """Members in the order of their ids, from the one after `after`."""

    async def count(self, organization: OrganizationId) -> tuple[int, int]:
        """The numbers of teams, and of slugs of deleted teams."""

    async def slugs_like(self, organization: OrganizationId, stem: str) -> Collection[str]:
        """All slugs of teams, present and deleted, that begin with the stem."""

    async def add(self, team: Team) -> bool:
        """False when a team has the slug, or had it once."""

    async def save(self, team: Team) -> None:
        """Saves name, external id and role, with the relations that follow from the role."""

    async def delete(self, team: TeamId) -> None:
        """The slug is not free again."""

    async def gives_service_roles(self, team: Team) -> bool:
        """Whether who comes into the team gets roles of services: the team's own, or those of the role that it carries."""

    async def role_gives_service_roles(self, team: Team) -> bool:
        """Whether roles of services are assigned to the organization's role that the team carries."""

    async def directory_carries(self, role: RoleId) -> bool:
        """Whether a team that a directory fills carries the role."""

    async def add_members(self, team: Team, users: Collection[UserId], at: datetime) -> Collection[UserId]:
        """Those who were not in the team before. People who are not members of the organization are left out."""

    async def remove_members(self, team: Team, users: Collection[UserId], at: datetime) -> Collection[UserId]:
        """Those who were in the team before."""
