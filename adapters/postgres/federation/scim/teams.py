"""Teams that directories fill, in PostgreSQL, as groups of SCIM."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from adapters.postgres.columns import AnswerRow, CountRow, IdRow, storable_text
from adapters.postgres.statements import Statements, Transaction, first
from adapters.postgres.tenancy.roles import TEAM
from core.domain.federation.scim.groups import DirectorySettings, ScimGrouping
from core.domain.identifiers import OrganizationId, TeamId, UserId
from core.domain.tenancy.teams import Team
from core.frozen import Frozen
from ports.federation.scim import ShownMembers


class _Settings(Frozen):
    groups: str
    profile_mapping: Mapping[str, str]


def _team_with(*, included: Collection[UserId], **team: Any) -> tuple[Team, Collection[UserId]]:
    return TEAM.row(**team), included


class _Part(Frozen):
    """A part of a team's members. `counted` is their number so far, with the members of the teams before."""

    place: int
    members: str
    counted: int


class DirectoryTeamRows:
    """Implements `ports.federation.scim.DirectoryTeamStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def settings(self, organization: OrganizationId) -> DirectorySettings:
        rows = await self._statements.ask(_Settings, _SETTINGS, {"organization": organization})
        return DirectorySettings(ScimGrouping(rows[0].groups), rows[0].profile_mapping) if rows else DirectorySettings()

    async def find_grouping_for_update(self, organization: OrganizationId) -> ScimGrouping | None:
        await self._statements.tell(_HOLD, {"organization": organization})
        rows = await self._statements.ask(_Settings, _SETTINGS, {"organization": organization})
        return ScimGrouping(rows[0].groups) if rows else None

    async def save_settings(self, organization: OrganizationId, settings: DirectorySettings, at: datetime) -> None:
        mapping = Jsonb(dict(settings.profile_mapping))
        parameters = {"organization": organization, "groups": settings.groups.value, "mapping": mapping, "at": at}
        await self._statements.tell(_SAVE_SETTINGS, parameters)

    async def has_any(self, organization: OrganizationId) -> bool:
        (answer,) = await self._statements.ask(AnswerRow, _HAS_ANY, {"organization": organization})
        return answer.yes

    async def list(self, organization: OrganizationId, members: Sequence[UserId]) -> Sequence[tuple[Team, Collection[UserId]]]:
        return await self._statements.ask(_team_with, _LIST, {"organization": organization, "members": list(members)})

    async def find(self, organization: OrganizationId, team: TeamId) -> Team | None:
        return first(await self._statements.ask(TEAM.row, _GET, {"organization": organization, "team": team}))

    async def find_for_update(self, organization: OrganizationId, team: TeamId) -> Team | None:
        await self._statements.tell(_HOLD, {"organization": organization})
        return await self.find(organization, team)

    async def members(self, teams: Sequence[Team], users_address: str, most: int | None) -> ShownMembers:
        parameters = {"teams": [team.id for team in teams], "address": users_address, "most": None if most is None else most + 1}
        parts: dict[int, list[bytes]] = {}
        complete = len(teams)
        for row in await self._statements.ask_for_many(_Part, _MEMBERS, parameters, lambda row: row):
            parts.setdefault(row.place, []).append(row.members.encode())
            if most is not None and row.counted > most:
                complete = min(complete, row.place - 1)
        shown = teams[:complete]
        return ShownMembers({team.id: b"[" + b",".join(parts.get(place, ())) + b"]" for place, team in enumerate(shown, 1)})

    async def has_external_id(self, organization: OrganizationId, external_id: str, besides: TeamId | None) -> bool:
        parameters = {"organization": organization, "external_id": storable_text(external_id), "besides": besides}
        (answer,) = await self._statements.ask(AnswerRow, _HAS_EXTERNAL_ID, parameters)
        return answer.yes

    async def known(self, organization: OrganizationId, users: Collection[UserId]) -> int:
        (answer,) = await self._statements.ask(CountRow, _KNOWN, {"organization": organization, "users": list(users)})
        return answer.count

    async def others(self, team: Team, users: Collection[UserId], most: int) -> Sequence[UserId]:
        parameters = {"team": team.id, "organization": team.organization, "users": list(users), "most": most}
        return [UserId(row.id) for row in await self._statements.ask(IdRow, _OTHERS, parameters)]


_SETTINGS: Final = """
    select coalesce(scim_groups.groups, 'organization') as groups, coalesce(scim_groups.profile_mapping, '{}') as profile_mapping
      from organizations
      left join scim_groups on scim_groups.org_id = organizations.id
     where organizations.id = %(organization)s
"""

# The lock is a separate statement, so that the next statement sees what others committed while this one waited.
_HOLD: Final = "select from organizations where id = %(organization)s for no key update"

_SAVE_SETTINGS: Final = """
    insert into scim_groups (org_id, groups, profile_mapping, updated_at)
    values (%(organization)s, %(groups)s, %(mapping)s, %(at)s)
        on conflict (org_id) do update
           set groups = excluded.groups, profile_mapping = excluded.profile_mapping, updated_at = excluded.updated_at
"""

_HAS_ANY: Final = "select exists (select from teams where org_id = %(organization)s and source = 'directory') as yes"

# A connection by LDAP fills its own teams.
_IS_SCIMS: Final = "not exists (select from directory_groups where directory_groups.team_id = teams.id)"

_LIST: Final[LiteralString] = f"""
    select {TEAM.names},
           array(
               select user_id
                 from team_members
                where team_id = teams.id and team_members.org_id = teams.org_id and user_id = any(%(members)s::uuid[])
           ) as included
      from teams
     where teams.org_id = %(organization)s and teams.source = 'directory' and {_IS_SCIMS}
     order by teams.id
"""

_GET: Final[LiteralString] = f"""
    select {TEAM.names}
      from teams
     where teams.id = %(team)s and teams.org_id = %(organization)s and teams.source = 'directory' and {_IS_SCIMS}
"""

# The members come in parts of a hundred, because a large team has megabytes of members.
_MEMBERS: Final = """
    with numbered as materialized (
             select asked.place, listed.user_id,
                    (row_number() over (partition by asked.place order by listed.user_id) - 1) / 100 as part
               from unnest(%(teams)s::uuid[]) with ordinality as asked (team, place)
               join teams on teams.id = asked.team
              cross join lateral (
                        select user_id
                          from team_members
                         where team_id = teams.id and org_id = teams.org_id
                         order by user_id
                         limit %(most)s::bigint
                    ) as listed
         ),
         parts as materialized (
             select place, part, count(*) as members_in_part,
                    string_agg(
                        '{"value":"' || user_id || '","$ref":"' || %(address)s::text || '/' || user_id || '","type":"User"}',
                        ',' order by user_id
                    ) as members
               from numbered
              group by place, part
         )
    select place, members, sum(members_in_part) over (order by place, part)::bigint as counted
      from parts
     order by place, part
"""

_HAS_EXTERNAL_ID: Final = """
    select exists (
               select
                 from teams
                where org_id = %(organization)s and external_id = %(external_id)s and id is distinct from %(besides)s::uuid
           ) as yes
"""

_KNOWN: Final = """
    select count(*) as count
      from unnest(%(users)s::uuid[]) as asked (user_id)
     where exists (select from memberships where org_id = %(organization)s and memberships.user_id = asked.user_id)
        or exists (select from provisioned_users where org_id = %(organization)s and provisioned_users.user_id = asked.user_id)
"""

_OTHERS: Final = """
    select user_id as id
      from team_members
     where team_id = %(team)s and org_id = %(organization)s and user_id <> all (%(users)s::uuid[])
     limit %(most)s
"""
