"""Teams of an organization's members: made, changed, filled and deleted."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest, Conflict, NotFound, found
from core.domain.identifiers import OrganizationId, TeamId, UserId
from core.domain.identity.proofs import FreshProofNeeded
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Assignable, BuiltInRole, Capability, needed_to_give, require_grantable, require_no_more
from core.domain.tenancy.teams import (
    MOST_FORMER_TEAMS,
    MOST_TEAMS,
    Team,
    TeamMember,
    TeamMembers,
    TeamSource,
    free_slug,
    member_added,
    member_removed_from_team,
    slug_stem,
    team_created,
    team_deleted,
    team_name,
    team_slug,
    team_updated,
)
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import Acting, find_members_for_update, require_capability, require_may_grant, require_owner
from ports.system import System
from ports.tenancy.members import TeamStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_NO_SUCH_TEAM: Final = "There is no such team"


class Teams(Frozen):
    """Every change locks the organization and checks the caller's rights again, because another change may have come in since the first
    check. A person who comes into a team gets everything that the team carries, so whoever adds them must hold all of it.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: TeamStore
    system: System

    async def list(self, member: Member) -> Sequence[Team]:
        """All teams of the organization, by slug."""
        return await self.lookup.list(member.organization)

    async def get(self, member: Member, slug: str) -> Team:
        """Raises `NotFound`."""
        return found(await self.lookup.find(member.organization, slug), _NO_SUCH_TEAM)

    async def members(self, member: Member, slug: str, after: UserId | None, limit: int) -> TeamMembers:
        """Members in the order of their ids, from the one after `after`. Raises `NotFound`."""
        team = await self.get(member, slug)
        found: Sequence[TeamMember] = await self.lookup.members(team, after, limit + 1)
        shown = found[:limit]
        return TeamMembers(shown, shown[-1].user if len(found) > limit else None)

    async def create(self, caller: Member, slug: str, actor: Actor, *, name: str, role: str = "") -> Team:
        """Raises `BadRequest`, `Forbidden` for a role with capabilities that the caller does not hold, and `Conflict` when a team has the
        slug or had it once.
        """
        slug, name, now = team_slug(slug), team_name(name), self.system.clock.now()
        async with self.unit_of_work() as uow:
            acting = await _hold(uow, caller)
            carried = await _assignable(uow, caller, acting, role, self.system.clock.now())
            present, former = await uow.teams.count(caller.organization)
            require_room(present, former)
            team = Team(
                id=TeamId(self.system.ids.new()),
                organization=caller.organization,
                slug=slug,
                name=name,
                role="" if carried is None else carried.slug,
                role_id=None if carried is None else carried.id,
                created_at=now,
                updated_at=now,
            )
            if not await uow.teams.add(team):
                raise Conflict("A team of the organization has this slug, or had it once: choose another", words="key_used_once")
            await uow.record(team_created(team, actor))
            await uow.commit()
        return team

    async def change(
        self, caller: Member, slug: str, actor: Actor, *, name: str | None = None, role: str | None = None, proved: bool = False
    ) -> Team:
        """Fields that are None keep their values; an empty role takes the role away. Members have the new role from their next request on.
        Raises `BadRequest`, `NotFound`, `Forbidden` when the team carries, before or after the change, a capability that the caller lacks,
        and `FreshProofNeeded` for the role of a team that a directory fills.
        """
        if name is None and role is None:
            raise BadRequest("Send at least one of name and role", words="nothing_to_change")
        wanted_name = None if name is None else team_name(name)
        async with self.unit_of_work() as uow:
            acting = await _hold(uow, caller)
            before = found(await uow.teams.find(caller.organization, slug), _NO_SUCH_TEAM)
            if before.is_directorys and wanted_name not in {None, before.name}:
                raise BadRequest("name: the directory names this team", words="team_named_there")
            after = before if wanted_name is None else replace(before, name=wanted_name)
            if role is not None and role != before.role:
                await _require_carried(uow, caller, acting, before)
                carried = await _assignable(uow, caller, acting, role, self.system.clock.now())
                if carried is not None and before.is_directorys:
                    await require_owner(uow, acting, self.system.clock.now())
                    require_fit_for_directory(carried.capabilities)
                    if not proved:
                        raise FreshProofNeeded
                after = replace(after, role=role, role_id=None if carried is None else carried.id)
                if carried is not None:
                    gives = await uow.teams.role_gives_service_roles(after)
                    require_grantable(needed_to_give(carried.capabilities, gives_service_roles=gives), acting.grantable)
            if after == before:
                return before
            after = replace(after, updated_at=self.system.clock.now())
            await uow.teams.save(after)
            await uow.record(team_updated(before, after, actor))
            await uow.commit()
        return after

    async def delete(self, caller: Member, slug: str, actor: Actor) -> None:
        """Its members lose at once what it carried. Raises `NotFound`, and `Forbidden` when the team carries capabilities that the caller
        lacks.
        """
        async with self.unit_of_work() as uow:
            acting = await _hold(uow, caller)
            team = found(await uow.teams.find(caller.organization, slug), _NO_SUCH_TEAM)
            await _require_carried(uow, caller, acting, team)
            await uow.teams.delete(team.id)
            await uow.record(team_deleted(team, actor))
            await uow.commit()

    async def add_member(self, caller: Member, slug: str, user: UserId, actor: Actor) -> None:
        """May be repeated. Raises `NotFound`, `BadRequest` for a team that a directory fills, and `Forbidden` when the team carries
        something that the caller lacks.
        """
        async with self.unit_of_work() as uow:
            acting, team = await self._hold_own(uow, caller, slug)
            role = await uow.roles.assignable(caller.organization, team.role) if team.role else None
            carried: frozenset[Capability] = frozenset() if role is None else role.capabilities
            gives = await uow.teams.gives_service_roles(team)
            await require_may_grant(uow, acting, needed_to_give(carried, gives_service_roles=gives), self.system.clock.now())
            if await uow.teams.add_members(team, [user], self.system.clock.now()):
                await uow.record(member_added(team, user, actor))
                await uow.commit()
            elif await uow.members.find(caller.organization, user) is None:
                raise NotFound("The organization has no such member")

    async def remove_member(self, caller: Member, slug: str, user: UserId, actor: Actor) -> None:
        """May be repeated. Raises `NotFound`, `BadRequest` for a team that a directory fills, and `Forbidden` when the team carries
        capabilities that the caller lacks.
        """
        async with self.unit_of_work() as uow:
            acting, team = await self._hold_own(uow, caller, slug)
            await _require_carried(uow, caller, acting, team)
            if await uow.teams.remove_members(team, [user], self.system.clock.now()):
                await uow.record(member_removed_from_team(team, user, actor))
                await uow.commit()
            elif await uow.members.find(caller.organization, user) is None:
                raise NotFound("The organization has no such member")

    async def _hold_own(self, uow: UnitOfWork, caller: Member, slug: str) -> tuple[Acting, Team]:
        acting = await _hold(uow, caller)
        team = found(await uow.teams.find(caller.organization, slug), _NO_SUCH_TEAM)
        if team.is_directorys:
            raise BadRequest("The directory fills this team: change its members there", words="team_filled_there")
        return acting, team


def require_room(present: int, former: int) -> None:
    if present >= MOST_TEAMS:
        raise BadRequest(
            f"An organization has at most {MOST_TEAMS} teams: delete one first", words="limit_reached", values={"most": MOST_TEAMS}
        )
    if former >= MOST_FORMER_TEAMS:
        raise BadRequest(
            f"An organization that has deleted {MOST_FORMER_TEAMS} teams can make no more: slugs are not used again",
            words="teams_used_up",
            values={"most": MOST_FORMER_TEAMS},
        )


def require_fit_for_directory(carried: Collection[Capability]) -> None:
    """Raises `BadRequest` when a team that a directory fills may not carry these capabilities."""
    if Capability.ROLES_MANAGE in carried:
        raise BadRequest(
            f"role: a team that a directory fills cannot carry {Capability.ROLES_MANAGE.value}", words="team_of_directory_role"
        )


async def _hold(uow: UnitOfWork, caller: Member) -> Acting:
    acting, _ = await find_members_for_update(uow, caller)
    require_capability(acting, Capability.MEMBERS_MANAGE)
    return acting


async def _assignable(uow: UnitOfWork, caller: Member, acting: Acting, slug: str, at: datetime) -> Assignable | None:
    """The role with this slug, if the caller may give it; None for no role."""
    if not slug:
        return None
    if slug == BuiltInRole.OWNER:
        raise BadRequest("role: a team cannot be the owner", words="team_no_owner")
    role = found(
        await uow.roles.assignable(caller.organization, slug), "role: there is no such role", words="role_unknown", refusal=BadRequest
    )
    await require_may_grant(uow, acting, role.capabilities, at)
    return role


async def _require_carried(uow: UnitOfWork, caller: Member, acting: Acting, team: Team) -> None:
    """Raises `Forbidden` when the team carries capabilities that the caller lacks."""
    role = await uow.roles.assignable(caller.organization, team.role) if team.role else None
    if role is not None:
        require_no_more(role.capabilities, acting.capabilities)


async def add_directory_team(
    uow: UnitOfWork, team: TeamId, organization: OrganizationId, name: str, now: datetime, *, external_id: str | None = None
) -> Team:
    """Adds a team whose members a directory sets. The caller has held the organization, and has seen that there is room."""
    stem = slug_stem(name)
    made = Team(
        id=team,
        organization=organization,
        slug=free_slug(stem, await uow.teams.slugs_like(organization, stem)),
        name=name,
        source=TeamSource.DIRECTORY,
        external_id=external_id,
        created_at=now,
        updated_at=now,
    )
    await uow.teams.add(made)
    return made
