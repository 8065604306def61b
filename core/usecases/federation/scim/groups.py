"""SCIM groups: the organization itself, the teams where an owner has enabled them, and this setting."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest, Conflict, Forbidden, NotFound
from core.domain.federation.scim.filters import Filter, FilterComparison, FilterField, FilterValue, comparisons, holds
from core.domain.federation.scim.groups import (
    MOST_MEMBERS,
    DirectorySettings,
    Group,
    GroupChange,
    ScimGrouping,
    compared_member,
    group_external_id_changed,
    group_name,
    moves,
    name_in,
    refuse_creation,
    require_same,
    settings_changed,
)
from core.domain.federation.scim.mappings import require_fields, scim_mapping
from core.domain.federation.scim.protocol import InvalidValue, text_of
from core.domain.federation.scim.resources import group_version, require_version
from core.domain.federation.scim.tokens import ScimHolder
from core.domain.federation.scim.users import ReasonForLeaving, listing_changed
from core.domain.identifiers import OrganizationId, TeamId, UserId
from core.domain.record.events import Actor, Event
from core.domain.requests import UNCHANGED, Unchanged
from core.domain.tenancy.members import Member
from core.domain.tenancy.teams import (
    Team,
    member_added,
    member_removed_from_team,
    team_created,
    team_deleted,
    team_updated,
)
from core.frozen import Frozen, replace
from core.usecases.federation.scim.enrolment import Changes, Enrolment
from core.usecases.tenancy.rights import hold_members, require_owner
from core.usecases.tenancy.teams import add_directory_team, require_room
from ports.federation.scim import DirectoryTeamStore, FoundGroup, ProvisionedUserStore, Touched
from ports.system import Clock, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_UNKNOWN = "There is no such group"


class ScimGroups(Frozen):
    changes: Changes
    lookup: ProvisionedUserStore
    members_address: str
    system: System

    async def get(self, holder: ScimHolder, *, with_members: bool) -> FoundGroup:
        """Raises `NotFound`."""
        return await self._found(holder, with_members=with_members)

    async def list(self, holder: ScimHolder, wanted: Filter | None, *, with_members: bool) -> Sequence[FoundGroup]:
        """The group, unless the filter leaves it out."""
        asked = [one for one in comparisons(wanted) if one.field is FilterField.MEMBER] if wanted is not None else []
        members = [user for one in asked if (user := compared_member(one)) is not None]
        found = await self._found(holder, members=members, with_members=with_members)
        if wanted is not None:
            values: Mapping[FilterField, Collection[FilterValue]] = {
                FilterField.ID: {str(found.group.id)},
                FilterField.DISPLAY_NAME: {found.group.name},
                FilterField.EXTERNAL_ID: {found.group.external_id} if found.group.external_id is not None else (),
                FilterField.MEMBER: {one.value for one in asked if compared_member(one) in found.included},
            }
            if not holds(wanted, values):
                return ()
        return (found,)

    async def change(self, holder: ScimHolder, asked: GroupChange, version: str | None, actor: Actor, *, with_members: bool) -> FoundGroup:
        """Applies the whole change or nothing. Raises `NotFound`, `PreconditionFailed`, `Forbidden` when the change would remove a person
        who may do more than a member, `InvalidValue` for people whom the directory does not know, `Mutability`, `TeamLimitExceeded`.
        """
        async with self.changes.one(holder) as uow:
            touched = await uow.provisioned_users.hold_group(holder.organization, asked)
            if touched is None:
                raise NotFound(_UNKNOWN)
            require_version(version, group_version(touched.group))
            require_same(asked, touched.group)
            if touched.known < len(asked.plus):
                raise InvalidValue("members: the organization has no user with one of these ids; create the user first")
            events = await self._carry_out(uow, holder, asked, touched, actor)
            if events:
                await uow.record_all(events)
                await uow.commit()
        return await self._found(holder, with_members=with_members)

    async def _carry_out(self, uow: UnitOfWork, holder: ScimHolder, change: GroupChange, touched: Touched, actor: Actor) -> Sequence[Event]:
        now = self.system.clock.now()
        move = moves(change, touched.users.values())
        for one in (*move.leaving, *move.entering, *move.listed, *move.unlisted):
            one.require_scims()
        enrolment = Enrolment(uow, self.system.ids, holder, actor, now)
        events: list[Event] = []
        if move.leaving:
            events += await enrolment.leave(move.leaving, ReasonForLeaving.LEFT_GROUP)
        if move.entering:
            capacity = replace(touched.capacity, members=touched.capacity.members - len(move.leaving))
            events += await enrolment.enter(capacity, move.entering)
        for people, is_listed in ((move.listed, True), (move.unlisted, False)):
            if people:
                await uow.provisioned_users.list_in_group(holder.organization, [one.user.id for one in people], now, listed=is_listed)
                events += [listing_changed(one.user.id, holder, actor) for one in people]
        written = [one.user.id for one in (*move.leaving, *move.entering, *move.listed, *move.unlisted)]
        if written:
            await uow.provisioned_users.list_by(holder.token, holder.organization, written)
        if not isinstance(change.external_id, Unchanged) and change.external_id != touched.group.external_id:
            await uow.provisioned_users.save_group(holder.organization, change.external_id, now)
            events.append(group_external_id_changed(holder.organization, actor))
        return events

    async def _found(self, holder: ScimHolder, *, members: Sequence[UserId] = (), with_members: bool) -> FoundGroup:
        found = await self.lookup.group(holder.organization, self.members_address if with_members else None, members)
        if found is None:
            raise NotFound(_UNKNOWN)
        return found


# The limit of members in one list of groups. The page of groups ends before it would exceed this, and goes on at the next one.
MOST_LISTED_MEMBERS: Final = 20_000
_TEAM_UNKNOWN: Final = "There is no such group"
_NO_DELETION: Final = "The group is the organization, and a directory cannot delete it"


class ScimTeams(Frozen):
    changes: Changes
    lookup: DirectoryTeamStore
    members_address: str
    system: System

    async def settings(self, holder: ScimHolder) -> DirectorySettings:
        return await self.lookup.settings(holder.organization)

    async def get(self, holder: ScimHolder, team: UUID, *, with_members: bool) -> FoundGroup:
        """Raises `NotFound`."""
        return await self._shown(_found(await self.lookup.find(holder.organization, TeamId(team))), with_members=with_members)

    async def list(self, holder: ScimHolder, wanted: Filter | None) -> Sequence[Team]:
        """The teams that the filter finds, by id."""
        asked = [one for one in comparisons(wanted) if one.field is FilterField.MEMBER] if wanted is not None else []
        members = [user for one in asked if (user := compared_member(one)) is not None]
        found = await self.lookup.list(holder.organization, members)
        return [team for team, included in found if wanted is None or holds(wanted, _values(team, asked, included))]

    async def page(self, teams: Sequence[Team], *, with_members: bool) -> Sequence[FoundGroup]:
        """The teams as groups. With members, only as many of the first teams as have no more than `MOST_LISTED_MEMBERS` together, and at
        least one.
        """
        if not with_members or not teams:
            return [FoundGroup(group_of(team), None, frozenset()) for team in teams]
        shown = (await self.lookup.members(teams, self.members_address, MOST_LISTED_MEMBERS)).by_team
        if not shown:
            return [await self._shown(teams[0], with_members=True)]
        return [FoundGroup(group_of(team), shown[team.id], frozenset()) for team in teams if team.id in shown]

    async def create(
        self, holder: ScimHolder, name: str | None, external_id: str | None, members: GroupChange, actor: Actor, *, with_members: bool
    ) -> FoundGroup:
        """Raises `NotImplementedHere` where the groups are not teams, `InvalidValue`, `Conflict` for an external id that another team has,
        and `BadRequest` when there are too many teams.
        """
        now = self.system.clock.now()
        async with self.changes.one(holder) as uow:
            if await uow.directory_teams.hold_grouping(holder.organization) is not ScimGrouping.TEAMS:
                raise refuse_creation()
            named, external = group_name(name), text_of("externalId", external_id)
            require_room(*await uow.teams.count(holder.organization))
            await self._require_free(uow, holder.organization, external, None)
            team = await add_directory_team(uow, TeamId(self.system.ids.new()), holder.organization, named, now, external_id=external)
            events = await self._fill(uow, team, members, actor, now)
            await uow.record_all([team_created(team, actor), *events])
            await uow.commit()
        return await self._shown(team, with_members=with_members)

    async def change(
        self, holder: ScimHolder, team: UUID, asked: GroupChange, version: str | None, actor: Actor, *, with_members: bool
    ) -> FoundGroup:
        """Applies the whole change or nothing. Raises `NotFound`, `PreconditionFailed`, `InvalidValue`, `Mutability`, and `Conflict` for an
        external id that another team has.
        """
        name = name_in(asked, team)
        now = self.system.clock.now()
        async with self.changes.one(holder) as uow:
            before = _found(await uow.directory_teams.hold(holder.organization, TeamId(team)))
            require_version(version, group_version(group_of(before)))
            after = before if isinstance(name, Unchanged) else replace(before, name=name)
            if not isinstance(asked.external_id, Unchanged):
                await self._require_free(uow, holder.organization, asked.external_id, before.id)
                after = replace(after, external_id=asked.external_id)
            events = list(await self._fill(uow, before, asked, actor, now))
            if after != before:
                await uow.teams.save(replace(after, updated_at=now))
                events.insert(0, team_updated(before, after, actor))
            if events:
                await uow.record_all(events)
                await uow.commit()
                after = replace(after, updated_at=now)
        return await self._shown(after, with_members=with_members)

    async def delete(self, holder: ScimHolder, team: UUID, version: str | None, actor: Actor) -> None:
        """Raises `NotFound`, `PreconditionFailed`, and `Forbidden` for the organization and where the groups are not teams."""
        if team == holder.organization:
            raise Forbidden(_NO_DELETION)
        async with self.changes.one(holder) as uow:
            found = await uow.directory_teams.hold(holder.organization, TeamId(team))
            if found is None:
                if (await uow.directory_teams.settings(holder.organization)).groups is not ScimGrouping.TEAMS:
                    raise Forbidden(_NO_DELETION)
                raise NotFound(_TEAM_UNKNOWN)
            require_version(version, group_version(group_of(found)))
            await uow.teams.delete(found.id)
            await uow.record(team_deleted(found, actor))
            await uow.commit()

    async def _fill(self, uow: UnitOfWork, team: Team, change: GroupChange, actor: Actor, now: datetime) -> Sequence[Event]:
        """People whom the directory has deactivated are no members of the organization, so they come into no team. A directory that names
        them still is answered as if it had not, because large directories send whole groups again and again.
        """
        if await uow.directory_teams.known(team.organization, change.plus) < len(change.plus):
            raise InvalidValue("members: the organization has no user with one of these ids; create the user first")
        leaving: Sequence[UserId] = list(change.minus)
        if change.replaced:
            leaving = await uow.directory_teams.others(team, change.plus, MOST_MEMBERS + 1)
            if len(leaving) > MOST_MEMBERS:
                raise InvalidValue(f"members: one request removes at most {MOST_MEMBERS}")
        events: list[Event] = []
        if leaving:
            events += [member_removed_from_team(team, user, actor) for user in await uow.teams.remove_members(team, leaving, now)]
        if change.plus:
            events += [member_added(team, user, actor) for user in await uow.teams.add_members(team, change.plus, now)]
        return events

    async def _require_free(self, uow: UnitOfWork, organization: OrganizationId, external_id: str | None, besides: TeamId | None) -> None:
        if external_id is not None and await uow.directory_teams.has_external_id(organization, external_id, besides):
            raise Conflict("externalId: another group has this id")

    async def _shown(self, team: Team, *, with_members: bool) -> FoundGroup:
        members = None
        if with_members:
            members = (await self.lookup.members([team], self.members_address, None)).by_team[team.id]
        return FoundGroup(group_of(team), members, frozenset())


class ScimSettings(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: DirectoryTeamStore
    clock: Clock

    async def get(self, member: Member) -> DirectorySettings:
        return await self.lookup.settings(member.organization)

    async def change(
        self,
        caller: Member,
        actor: Actor,
        *,
        groups: ScimGrouping | Unchanged = UNCHANGED,
        mapping: Mapping[str, str] | Unchanged = UNCHANGED,
    ) -> DirectorySettings:
        """Raises `Forbidden` when the caller is no longer the owner, and `BadRequest` for a wrong mapping, for one to a field that does
        not exist, and for switching back while the directory fills teams: nobody could then take away what these teams carry.
        """
        if isinstance(groups, Unchanged) and isinstance(mapping, Unchanged):
            raise BadRequest("Send at least one of groups and profile_mapping", words="nothing_to_change")
        checked = mapping if isinstance(mapping, Unchanged) else scim_mapping(mapping)
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, caller)
            await require_owner(uow, acting, self.clock.now())
            before = await uow.directory_teams.settings(caller.organization)
            if not isinstance(checked, Unchanged):
                fields = await uow.profile_fields.hold_all(caller.organization)
                require_fields(checked, before.profile_mapping, {field.key for field in fields})
            after = DirectorySettings(
                before.groups if isinstance(groups, Unchanged) else groups,
                before.profile_mapping if isinstance(checked, Unchanged) else checked,
            )
            if after == before:
                return before
            ends_teams = before.groups is ScimGrouping.TEAMS and after.groups is ScimGrouping.ORGANIZATION
            if ends_teams and await uow.directory_teams.has_any(caller.organization):
                raise BadRequest("groups: the directory fills teams: delete these first, there or here")
            await uow.directory_teams.save_settings(caller.organization, after, self.clock.now())
            await uow.record(settings_changed(caller.organization, before, after, actor))
            await uow.commit()
        return after


def group_of(team: Team) -> Group:
    """The team as a group of SCIM."""
    state = f"{team.name}/{team.external_id}/{team.updated_at.timestamp()}"
    return Group(
        id=team.id, name=team.name, external_id=team.external_id, state=state, created_at=team.created_at, updated_at=team.updated_at
    )


def _values(team: Team, asked: Sequence[FilterComparison], included: Collection[UserId]) -> Mapping[FilterField, Collection[FilterValue]]:
    return {
        FilterField.ID: {str(team.id)},
        FilterField.DISPLAY_NAME: {team.name},
        FilterField.EXTERNAL_ID: {team.external_id} if team.external_id is not None else (),
        FilterField.MEMBER: {one.value for one in asked if compared_member(one) in included},
    }


def _found(team: Team | None) -> Team:
    if team is None:
        raise NotFound(_TEAM_UNKNOWN)
    return team
