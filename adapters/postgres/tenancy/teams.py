"""Teams in PostgreSQL, with their members and the relations that say what the members may do."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import Columns
from adapters.postgres.rows import AnswerRow, IdRow
from adapters.postgres.statements import first, only
from adapters.postgres.storable import storable_text
from adapters.postgres.tenancy.roles import gives_service_roles
from adapters.postgres.ties import has_name, is_own_member, shown_name
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, RoleId, TeamId, UserId
from core.domain.mail import Email
from core.domain.tenancy.roles import HOLDER
from core.domain.tenancy.teams import Team, TeamMember
from core.frozen import Frozen


def teams_of(user: LiteralString, organization: LiteralString) -> LiteralString:
    """A part of statements: the ids of this user's teams in this organization, as `team_id`. One look-up in an index."""
    return f"select team_id from team_members where user_id = {user} and org_id = {organization}"


TEAM: Final = Columns(Team, "teams", named={"organization": "org_id"}, texts=("name", "external_id"), empties=("role",))


class _Counts(Frozen):
    present: int
    former: int


def _member(*, email: str, **columns: Any) -> TeamMember:
    return TeamMember(email=Email(email), **columns)


class TeamRows(OnStatements):
    """Implements `ports.tenancy.members.TeamStore`."""

    async def list(self, organization: OrganizationId) -> Sequence[Team]:
        return await self._statements.ask(TEAM.row, _LIST, {"organization": organization})

    async def find(self, organization: OrganizationId, slug: str) -> Team | None:
        return first(await self._statements.ask(TEAM.row, _GET, {"organization": organization, "slug": storable_text(slug)}))

    async def slugs_of(self, organization: OrganizationId, user: UserId, most: int) -> Sequence[str]:
        return await self._statements.ask_in_order(str, _SLUGS_OF, {"organization": organization, "user": user, "most": most})

    async def members(self, team: Team, after: UserId | None, limit: int) -> Sequence[TeamMember]:
        parameters = {"team": team.id, "organization": team.organization, "after": after or _NOBODY, "limit": limit}
        return await self._statements.ask(_member, _MEMBERS, parameters)

    async def count(self, organization: OrganizationId) -> tuple[int, int]:
        (row,) = await self._statements.ask(_Counts, _COUNT, {"organization": organization})
        return row.present, row.former

    async def slugs_like(self, organization: OrganizationId, stem: str) -> Collection[str]:
        return set(await self._statements.ask_in_order(str, _SLUGS_LIKE, {"organization": organization, "stem": stem}))

    async def add(self, team: Team) -> bool:
        return bool(await self._statements.ask(IdRow, _ADD, _columns(team)))

    async def save(self, team: Team) -> None:
        await self._statements.tell(_SAVE, _columns(team))

    async def delete(self, team: TeamId) -> None:
        await self._statements.tell(_DELETE, {"id": team})

    async def gives_service_roles(self, team: Team) -> bool:
        parameters = {"team": team.id, **_carried(team)}
        return only(await self._statements.ask(AnswerRow, _GIVES_SERVICE_ROLES, parameters)).yes

    async def role_gives_service_roles(self, team: Team) -> bool:
        return only(await self._statements.ask(AnswerRow, _ROLE_GIVES_SERVICE_ROLES, _carried(team))).yes

    async def directory_carries(self, role: RoleId) -> bool:
        return only(await self._statements.ask(AnswerRow, _DIRECTORY_CARRIES, {"role": role})).yes

    async def add_members(self, team: Team, users: Collection[UserId], at: datetime) -> Collection[UserId]:
        return await self._changed(_ADD_MEMBERS, team, users, at)

    async def remove_members(self, team: Team, users: Collection[UserId], at: datetime) -> Collection[UserId]:
        return await self._changed(_REMOVE_MEMBERS, team, users, at)

    async def _changed(self, statement: LiteralString, team: Team, users: Collection[UserId], at: datetime) -> Collection[UserId]:
        parameters = {"team": team.id, "organization": team.organization, "users": list(users), "at": at}
        return [UserId(row.id) for row in await self._statements.ask(IdRow, statement, parameters)]


def _carried(team: Team) -> Mapping[str, Any]:
    built_in = None if team.role_id is not None else team.role or None
    return {"organization": team.organization, "role_id": team.role_id, "built_in": built_in}


def _columns(team: Team) -> Mapping[str, Any]:
    carried: Mapping[str, Any] = {"relation": team.role or None, "object_type": "organization", "object": team.organization}
    if team.role_id is not None:
        carried = {"relation": HOLDER, "object_type": "role", "object": team.role_id}
    return {**TEAM.values(team), **carried}


# No user has this id, and all ids of users come after it.
_NOBODY: Final = UUID(int=0)

_LIST: Final[LiteralString] = f"""
    select {TEAM.names}
      from teams
      join organizations on organizations.id = teams.org_id
     where teams.org_id = %(organization)s
     order by teams.slug
"""

_GET: Final[LiteralString] = f"""
    select {TEAM.names}
      from teams
      join organizations on organizations.id = teams.org_id
     where teams.org_id = %(organization)s and teams.slug = %(slug)s
"""

_SLUGS_OF: Final[LiteralString] = f"""
    select teams.slug
      from ({teams_of("%(user)s", "%(organization)s")}) as joined
      join teams on teams.id = joined.team_id
     order by teams.slug
     limit %(most)s
"""

_MEMBERS: Final[LiteralString] = f"""
    select team_members.user_id as user, users.email, team_members.added_at,
           case when {has_name("users")} and {is_own_member("team_members.org_id", "users.id")} then {shown_name("users")} end as name
      from team_members
      join users on users.id = team_members.user_id
     where team_members.team_id = %(team)s and team_members.org_id = %(organization)s and team_members.user_id > %(after)s
     order by team_members.user_id
     limit %(limit)s
"""

_COUNT: Final = """
    select (select count(*) from teams where org_id = %(organization)s) as present,
           (
               select count(*)
                 from former_slugs
                where org_id = %(organization)s and noun = 'team' and service_id is null
           ) as former
"""

_SLUGS_LIKE: Final = """
    select slug from teams where org_id = %(organization)s and starts_with(slug, %(stem)s)
     union all
    select slug
      from former_slugs
     where org_id = %(organization)s and noun = 'team' and service_id is null and starts_with(slug, %(stem)s)
"""

_ADD: Final[LiteralString] = f"""
    with added as (
             insert into teams ({TEAM.into()})
             select {TEAM.inserted()}
              where not exists (
                        select
                          from former_slugs
                         where org_id = %(organization)s and noun = 'team' and slug = %(slug)s and service_id is null
                    )
                 on conflict (org_id, slug) do nothing
          returning id
         ),
         related as (
             insert into relations (organization_id, team_id, relation, object_type, object_id)
             select %(organization)s, id, %(relation)s, %(object_type)s, %(object)s
               from added
              where %(relation)s::text is not null
         )
  select id from added
"""

# The statement keeps a relation that the new role gives as well, because one statement cannot delete a row and insert it again. Roles of
# services are not touched.
_SAVE: Final = """
    with saved as (
             update teams
                set name = %(name)s, external_id = %(external_id)s, role = %(role)s, role_id = %(role_id)s, updated_at = %(updated_at)s
              where id = %(id)s
          returning id, org_id
         ),
         ended as (
             delete from relations
              using saved
              where relations.team_id = saved.id and relations.object_type in ('organization', 'role')
                and (%(relation)s::text is null or (relations.object_id, relations.relation) <> (%(object)s, %(relation)s))
         )
  insert into relations (organization_id, team_id, relation, object_type, object_id)
  select org_id, id, %(relation)s, %(object_type)s, %(object)s
    from saved
   where %(relation)s::text is not null
      on conflict do nothing
"""

_DELETE: Final = """
    with gone as (
             delete from teams where id = %(id)s returning org_id, slug
         )
  insert into former_slugs (org_id, noun, slug)
  select org_id, 'team', slug from gone
      on conflict do nothing
"""

_BY_ROLE: Final[LiteralString] = f"""
               {gives_service_roles("%(role_id)s::uuid")}
            or exists (
                   select
                     from relations
                    where organization_id = %(organization)s and built_in_role = %(built_in)s::text and object_type = 'service_role'
               )
"""

_ROLE_GIVES_SERVICE_ROLES: Final[LiteralString] = f"select {_BY_ROLE} as yes"

_GIVES_SERVICE_ROLES: Final[LiteralString] = f"""
    select exists (select from relations where team_id = %(team)s and object_type = 'service_role') or {_BY_ROLE} as yes
"""

_DIRECTORY_CARRIES: Final = "select exists (select from teams where role_id = %(role)s and source = 'directory') as yes"

# A membership that ends meanwhile, with the person's account, makes this statement wait; then the person is left out.
_ADD_MEMBERS: Final = """
    with coming as (
             select user_id
               from memberships
              where org_id = %(organization)s and user_id = any(%(users)s)
              order by user_id
                for key share
         ),
         added as (
             insert into team_members (team_id, org_id, user_id, added_at)
             select %(team)s, %(organization)s, user_id, %(at)s from coming
                 on conflict do nothing
          returning user_id
         ),
         touched as (
             update teams set updated_at = %(at)s where id = %(team)s and exists (select from added)
         )
  select user_id as id from added
"""

_REMOVE_MEMBERS: Final = """
    with removed as (
             delete from team_members
              where team_id = %(team)s and org_id = %(organization)s and user_id = any(%(users)s)
          returning user_id
         ),
         touched as (
             update teams set updated_at = %(at)s where id = %(team)s and exists (select from removed)
         )
  select user_id as id from removed
"""
