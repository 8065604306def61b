"""Roles, teams and relations of organizations in PostgreSQL."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import AnswerRow, Columns, CountRow, IdRow, storable_text
from adapters.postgres.identity.factors.mfa import grace_is_over, second_factor_due_in
from adapters.postgres.identity.terms import pending_terms
from adapters.postgres.statements import OnPool, OnStatements, ask, first, only
from adapters.postgres.ties import has_name, is_own_member, shown_name
from core.domain.branding import named_application
from core.domain.identifiers import OrganizationId, RoleId, TeamId, UserId
from core.domain.mail import Email
from core.domain.tenancy.organizations import Accessor, OrganizationStatus, Related
from core.domain.tenancy.roles import HOLDER, Assignable, Role, built_in, capabilities_of, kept_permissions
from core.domain.tenancy.teams import Team, TeamMember
from core.frozen import Frozen

ROLE: Final = Columns(Role, "roles", named={"organization": "org_id"}, apart=("permissions",), texts=("name", "description"))


def _role(*, permissions: Sequence[str], **columns: Any) -> Role:
    return ROLE.row(permissions=kept_permissions(permissions), **columns)


def _assignable(*, gives_service_roles: bool, application: list[str | None] | None, **columns: Any) -> Assignable:
    role = _role(**columns)
    return Assignable(role.slug, role.id, capabilities_of(role.permissions), gives_service_roles, named_application(application))


class RoleRows(OnStatements):
    """Implements `ports.tenancy.members.RoleStore`."""

    async def list(self, organization: OrganizationId) -> Sequence[Role]:
        return await self._statements.ask(_role, _LIST, {"organization": organization})

    async def find(self, organization: OrganizationId, role: RoleId) -> Role | None:
        return first(await self._statements.ask(_role, _GET, {"organization": organization, "id": role}))

    async def assignable(self, organization: OrganizationId, slug: str) -> Assignable | None:
        if (built := built_in(slug)) is not None:
            return built
        parameters = {"organization": organization, "slug": storable_text(slug)}
        await self._statements.tell(_HOLD_BY_SLUG, parameters)
        return first(await self._statements.ask(_assignable, _FIND_BY_SLUG, parameters))

    async def count(self, organization: OrganizationId) -> int:
        return only(await self._statements.ask(CountRow, _COUNT, {"organization": organization})).count

    async def add(self, role: Role) -> bool:
        return bool(await self._statements.ask(IdRow, _ADD, _role_columns(role)))

    async def hold(self, organization: OrganizationId, role: RoleId) -> Role | None:
        parameters = {"organization": organization, "id": role}
        await self._statements.tell(_HOLD, parameters)
        return first(await self._statements.ask(_role, _GET, parameters))

    async def save(self, role: Role) -> None:
        await self._statements.tell(_SAVE, _role_columns(role))

    async def delete(self, role: RoleId) -> bool:
        return bool(await self._statements.ask(IdRow, _DELETE, {"id": role}))


def _role_columns(role: Role) -> Mapping[str, Any]:
    return {**ROLE.values(role), "permissions": sorted(role.permissions)}


def gives_service_roles(role: LiteralString) -> LiteralString:
    """Whether roles of services are assigned to the role of an organization's own with this id. One look-up in an index."""
    return f"exists (select from relations where relations.role_id = {role} and relations.object_type = 'service_role')"


def application_of(role: LiteralString) -> LiteralString:
    """Name and logo of the application whose roles are assigned to the role with this id, as `named_application` takes them. Null for a
    role that gives none, or roles of several applications.
    """
    return f"""(
               select array[min(services.name), min(services.logo_digest)]
                 from relations
                 join service_roles on service_roles.id = relations.object_id
                 join services on services.id = service_roles.service_id
                where relations.role_id = {role} and relations.object_type = 'service_role'
               having count(distinct services.id) = 1
           )"""


_COLUMNS: Final[LiteralString] = f"""
           {ROLE.names},
           array(
               select relation from relations where relations.role_id = roles.id and relations.object_id = roles.org_id
           ) as permissions"""
_ROLE: Final[LiteralString] = f"select {_COLUMNS} from roles"

_GET: Final[LiteralString] = f"{_ROLE} where roles.id = %(id)s and roles.org_id = %(organization)s"

_FIND_BY_SLUG: Final[LiteralString] = f"""
    select {_COLUMNS}, {gives_service_roles("roles.id")} as gives_service_roles, {application_of("roles.id")} as application
      from roles
     where roles.org_id = %(organization)s and roles.slug = %(slug)s
"""

_LIST: Final[LiteralString] = f"{_ROLE} where roles.org_id = %(organization)s order by roles.slug"

# The locks are separate statements. So the next statement sees what others committed while the lock waited, including the permissions,
# which are other rows. `for share` lets any number of transactions assign the role at once. A transaction that changes or deletes the role
# takes `for update`, so it waits for them, and they wait for it.
_HOLD_BY_SLUG: Final = "select from roles where org_id = %(organization)s and slug = %(slug)s for share"

_HOLD: Final = "select from roles where id = %(id)s and org_id = %(organization)s for update"

_COUNT: Final = "select count(*) as count from roles where org_id = %(organization)s"

_ADD: Final[LiteralString] = f"""
    with added as (
             insert into roles ({ROLE.into()})
             values ({ROLE.inserted()})
                 on conflict (org_id, slug) do nothing
          returning id, org_id
         ),
         permitted as (
             insert into relations (organization_id, role_id, relation, object_type, object_id)
             select added.org_id, added.id, permission, 'organization', added.org_id
               from added, unnest(%(permissions)s::text[]) as permission
         )
  select id from added
"""

_SAVE: Final = """
    with saved as (
             update roles
                set name = %(name)s, description = %(description)s, updated_at = %(updated_at)s
              where id = %(id)s
          returning id, org_id
         ),
         forbidden as (
             delete from relations
              using saved
              where relations.role_id = saved.id and relations.object_id = saved.org_id and relation <> all (%(permissions)s::text[])
         )
  insert into relations (organization_id, role_id, relation, object_type, object_id)
  select saved.org_id, saved.id, permission, 'organization', saved.org_id
    from saved, unnest(%(permissions)s::text[]) as permission
      on conflict do nothing
"""

# An overdue invitation keeps the role from being deleted until the invitation sweeper closes the invitation soon after.
_DELETE: Final = """
    delete from roles
     where id = %(id)s
       and not exists (select from memberships where role_id = %(id)s)
       and not exists (select from teams where role_id = %(id)s)
       and not exists (select from invitations where role_id = %(id)s and status = 'pending')
 returning id
"""


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
        return await self._statements.ask(TEAM.row, _TEAM_LIST, {"organization": organization})

    async def find(self, organization: OrganizationId, slug: str) -> Team | None:
        return first(await self._statements.ask(TEAM.row, _TEAM_GET, {"organization": organization, "slug": storable_text(slug)}))

    async def slugs_of(self, organization: OrganizationId, user: UserId, most: int) -> Sequence[str]:
        return await self._statements.ask_in_order(str, _SLUGS_OF, {"organization": organization, "user": user, "most": most})

    async def members(self, team: Team, after: UserId | None, limit: int) -> Sequence[TeamMember]:
        parameters = {"team": team.id, "organization": team.organization, "after": after or _NOBODY, "limit": limit}
        return await self._statements.ask(_member, _MEMBERS, parameters)

    async def count(self, organization: OrganizationId) -> tuple[int, int]:
        (row,) = await self._statements.ask(_Counts, _TEAM_COUNT, {"organization": organization})
        return row.present, row.former

    async def slugs_like(self, organization: OrganizationId, stem: str) -> Collection[str]:
        return set(await self._statements.ask_in_order(str, _SLUGS_LIKE, {"organization": organization, "stem": stem}))

    async def add(self, team: Team) -> bool:
        return bool(await self._statements.ask(IdRow, _TEAM_ADD, _team_columns(team)))

    async def save(self, team: Team) -> None:
        await self._statements.tell(_TEAM_SAVE, _team_columns(team))

    async def delete(self, team: TeamId) -> None:
        await self._statements.tell(_TEAM_DELETE, {"id": team})

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


def _team_columns(team: Team) -> Mapping[str, Any]:
    carried: Mapping[str, Any] = {"relation": team.role or None, "object_type": "organization", "object": team.organization}
    if team.role_id is not None:
        carried = {"relation": HOLDER, "object_type": "role", "object": team.role_id}
    return {**TEAM.values(team), **carried}


# No user has this id, and all ids of users come after it.
_NOBODY: Final = UUID(int=0)

_TEAM_LIST: Final[LiteralString] = f"""
    select {TEAM.names}
      from teams
      join organizations on organizations.id = teams.org_id
     where teams.org_id = %(organization)s
     order by teams.slug
"""

_TEAM_GET: Final[LiteralString] = f"""
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

_TEAM_COUNT: Final = """
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

_TEAM_ADD: Final[LiteralString] = f"""
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
_TEAM_SAVE: Final = """
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

_TEAM_DELETE: Final = """
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


# A part of statements that read `users` and an organization as `wanted`. The part finds all relations of the person to the organization:
# the person's own relations, those of the person's teams (`by_team`), and the relations that a role gives the person (`by_role`). The
# relation `holder` to a role permits nothing by itself; the role's own relations say what its holders may do. Finding all of them takes
# three look-ups in an index, whatever the number of organizations, members or teams, and one more for each team of the person.
RELATED: Final[LiteralString] = f"""
               select related.relation, related.by_role, held.by_team
                 from (
                          select relation, object_type, object_id, null::uuid as by_team
                            from relations
                           where user_id = users.id and organization_id = wanted.id
                             and (object_id = wanted.id or object_type = 'role')
                           union all
                          select relations.relation, relations.object_type, relations.object_id, relations.team_id
                            from ({teams_of("users.id", "wanted.id")}) as joined
                            join relations on relations.team_id = joined.team_id and relations.organization_id = wanted.id
                             and (relations.object_id = wanted.id or relations.object_type = 'role')
                      ) as held
                cross join lateral (
                          select held.relation, case held.object_type when 'role' then held.object_id end as by_role
                           union all
                          select given.relation, given.role_id
                            from relations as given
                           where given.role_id = held.object_id and given.object_id = wanted.id
                             and held.object_type = 'role' and held.relation = 'holder'
                      ) as related
"""

# `RELATED` without the relations that the organization's directory gives by its teams.
RELATED_BESIDES_DIRECTORY: Final[LiteralString] = f"""
               select related.relation, related.by_role, related.by_team
                 from ({RELATED}) as related
                where not exists (select from teams where teams.id = related.by_team and teams.source = 'directory')
"""

# The names of the relations that `RELATED` finds, as an array.
RELATIONS_OF_MEMBER: Final[LiteralString] = f"array(select relation from ({RELATED}) as related)"


class _Standing(Frozen):
    email: str
    deactivated_at: datetime | None
    slug: str
    status: str
    role: str | None
    relation: str | None
    by_role: str | None
    by_team: str | None
    second_factor_due: datetime | None
    owes_second_factor: bool
    terms: Sequence[Mapping[str, Any]] | None


class PostgresRelations(OnPool):
    """Implements `ports.tenancy.members.RelationLookup`.

    Reads which user has which relation to which object. Every check of access reads these rows and no others.
    """

    async def find(self, email: Email, slug: str) -> Accessor | None:
        rows = await ask(self._pool, _Standing, _EXPLAIN, {"email_key": email.key, "slug": storable_text(slug)})
        if not rows:
            return None
        first = rows[0]
        related = [Related(row.relation, row.by_role or "", row.by_team or "") for row in rows if row.relation is not None]
        return Accessor(
            Email(first.email),
            first.deactivated_at is None,
            first.slug,
            OrganizationStatus(first.status),
            first.role or "",
            related,
            first.second_factor_due,
            first.owes_second_factor,
            # Those of other organizations do not keep the person out of this one.
            [one for one in pending_terms(first.terms) if one.organization_slug in {"", first.slug}],
        )


_EXPLAIN: Final[LiteralString] = f"""
    select users.email, users.deactivated_at, wanted.slug, wanted.status, memberships.role, related.relation, roles.slug as by_role,
           teams.slug as by_team, rule.due as second_factor_due, {grace_is_over("rule.due")} as owes_second_factor,
           terms_pending(users.id, wanted.id) as terms
      from users
      join organizations as wanted on wanted.slug = %(slug)s
      left join memberships on memberships.org_id = wanted.id and memberships.user_id = users.id
      left join lateral ({RELATED}) as related on true
      left join roles on roles.id = related.by_role
      left join teams on teams.id = related.by_team
      left join lateral (select {second_factor_due_in("wanted.id", "users.id")} as due) as rule on true
     where users.email_key = %(email_key)s
     order by teams.slug nulls first, roles.slug nulls first, related.relation <> 'holder', related.relation
"""
