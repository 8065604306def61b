"""Groups of a directory by LDAP become teams, by the rules of SCIM's teams: an owner has switched to them, and the directory gives no
roles.
"""

from hashlib import sha256
from typing import Final

import structlog

from core.domain.errors import BadRequest
from core.domain.federation.directory_runs.people import WhyLeftOut, external_id
from core.domain.federation.directory_runs.runs import DirectoryStep, RunTally, must_stop
from core.domain.federation.scim.groups import MOST_MEMBERS, ScimGrouping
from core.domain.identifiers import TeamId, UserId
from core.domain.identity.upstream.ldap.answers import LdapSite
from core.domain.identity.upstream.ldap.reading import LdapGroup
from core.domain.record.events import SYSTEM, Event
from core.domain.tenancy.teams import (
    LONGEST_NAME,
    member_added,
    member_removed_from_team,
    team_created,
    team_deleted,
    team_updated,
)
from core.frozen import Frozen, replace
from core.usecases.federation.directory_runs.applying import hold_step
from core.usecases.tenancy.teams import add_directory_team, require_room
from ports.federation.directory_runs import DirectoryPeopleStore, ListedGroup
from ports.federation.scim.teams import DirectoryTeamStore
from ports.identity.upstream.ldap_reading import LdapReading
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()

_NAMELESS: Final = "group"


class RunTeams(Frozen):
    unit_of_work: UnitOfWorkFactory
    people: DirectoryPeopleStore
    directory_teams: DirectoryTeamStore
    reading: LdapReading
    system: System

    async def fill(self, step: DirectoryStep, site: LdapSite, tally: RunTally, *, everything: bool) -> None:
        """Counts the teams that have changed. `everything`: people have come, so groups that are as before are compared, too. Raises
        `LdapFailed` and `TakenOver`.
        """
        if (await self.directory_teams.settings(step.organization)).groups is not ScimGrouping.TEAMS:
            return
        groups = await self.reading.groups(site)
        known = {one.external_id: one for one in await self.people.groups(step.connection)}
        if not groups:
            # A directory that names no group any more has lost its rights, and not its groups.
            if known:
                log.warning("directory_without_groups", connection=str(step.connection), teams=len(known))
            return
        listed, has_room = len(known), True
        for group in groups:
            before, digest = known.pop(group.identity, None), _digest(group)
            if before is None and not has_room:
                # A directory has thousands of groups, and each would ask in a transaction of its own, in each run.
                continue
            if everything or before is None or before.digest != digest:
                is_changed = await self._one(step, site, group, before, digest)
                has_room = has_room and is_changed is not None
                tally.teams += is_changed or False
        # Teams hold roles, and whoever loses a role by a fault of the directory does not get it back with the group.
        stays = must_stop(len(known), 0, listed)
        for gone in known.values():
            if stays:
                tally.leave_out(gone.team.name, WhyLeftOut.GROUP_STAYS)
            else:
                tally.teams += await self._delete(step, gone)

    async def _one(self, step: DirectoryStep, site: LdapSite, group: LdapGroup, before: ListedGroup | None, digest: bytes) -> bool | None:
        """Whether the team has changed. None when there is no room for another team."""
        now = self.system.clock.now()
        members = {external_id(one, site.settings) for one in group.members}
        async with self.unit_of_work() as uow:
            await hold_step(uow, step, self.system)
            team = None if before is None else await uow.directory_people.team(step.connection, group.identity)
            events = list[Event]()
            if team is None:
                try:
                    require_room(*await uow.teams.count(step.organization))
                except BadRequest:
                    log.warning("directory_group_without_room", connection=str(step.connection))
                    return None
                team = await add_directory_team(uow, TeamId(self.system.ids.new()), step.organization, _name(group), now)
                events.append(team_created(team, SYSTEM))
            elif team.name != _name(group):
                renamed = replace(team, name=_name(group), updated_at=now)
                await uow.teams.save(renamed)
                events.append(team_updated(team, renamed, SYSTEM))
            users: list[UserId] = list(await uow.directory_people.users_of(step.connection, members))
            if not group.is_cut:
                while leaving := await uow.directory_teams.others(team, users, MOST_MEMBERS):
                    gone = await uow.teams.remove_members(team, leaving, now)
                    events += [member_removed_from_team(team, user, SYSTEM) for user in gone]
            events += [member_added(team, user, SYSTEM) for user in await uow.teams.add_members(team, users, now)]
            await uow.directory_people.save_group(step.connection, group.identity, team.id, digest)
            await uow.record_all(events)
            await uow.commit()
        return len(events) > 0

    async def _delete(self, step: DirectoryStep, gone: ListedGroup) -> bool:
        async with self.unit_of_work() as uow:
            await hold_step(uow, step, self.system)
            team = await uow.directory_people.team(step.connection, gone.external_id)
            # None, if somebody has deleted it at this moment.
            await uow.teams.delete(gone.team.id)
            await uow.record_all([] if team is None else [team_deleted(team, SYSTEM)])
            await uow.commit()
        return team is not None


def _name(group: LdapGroup) -> str:
    return "".join(one for one in group.name if one.isprintable()).strip()[:LONGEST_NAME].strip() or _NAMELESS


def _digest(group: LdapGroup) -> bytes:
    digest = sha256(_name(group).encode("utf-8", "surrogatepass"))
    for one in sorted(group.members):
        digest.update(sha256(one).digest())
    return digest.digest()
