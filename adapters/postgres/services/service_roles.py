"""Permissions and roles of an application in PostgreSQL, their assignments, and the rights that follow."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import AnswerRow, Columns, CountRow, IdRow, listed, storable_text
from adapters.postgres.identity.proofs.sign_in_policy import admits, assignments_of
from adapters.postgres.identity.sessions.parts import ending_codes, revoking
from adapters.postgres.statements import OnStatements, first, first_made, only
from adapters.postgres.ties import IS_MEMBER_HERE, has_come, is_own_member
from core.domain.identifiers import AssignmentId, OrganizationId, RoleId, ServiceId, ServiceRoleId, UserId
from core.domain.services.rights import BlockReason, ExplainedRights, FoundSubjects, GivenBy, HeldRole, ServiceRights
from core.domain.services.service_roles import (
    HOLDER,
    Assignee,
    Assignment,
    AssignmentPage,
    ServicePermission,
    ServiceRole,
    ToPerson,
    ToRole,
    ToTeam,
)
from core.domain.tenancy.roles import built_in
from core.frozen import Frozen

ROLE: Final = Columns(
    ServiceRole, "service_roles", named={"organization": "org_id", "service": "service_id"}, texts=("name", "description")
)


class ServiceRoleRows(OnStatements):
    """Implements `ports.services.services.ServiceRoleStore`."""

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ServiceRole] | None:
        return listed(
            await self._statements.ask(ROLE.found, _LIST, {"organization": organization, "service_slug": storable_text(service_slug)})
        )

    async def find(self, organization: OrganizationId, service_slug: str, slug: str) -> ServiceRole | None:
        parameters = {"organization": organization, "service_slug": storable_text(service_slug), "slug": storable_text(slug)}
        return first(await self._statements.ask(ROLE.row, _FIND, parameters))

    async def find_in_service(self, service: ServiceId, slug: str) -> ServiceRole | None:
        return first(await self._statements.ask(ROLE.row, _GET, {"service": service, "slug": storable_text(slug)}))

    async def count(self, service: ServiceId) -> int:
        return only(await self._statements.ask(CountRow, _COUNT, {"service": service})).count

    async def add(self, role: ServiceRole) -> bool:
        return bool(await self._statements.ask(IdRow, _ADD, ROLE.values(role)))

    async def save(self, role: ServiceRole) -> None:
        await self._statements.tell(_SAVE, ROLE.values(role))

    async def delete(self, role: ServiceRoleId) -> int:
        return only(await self._statements.ask(CountRow, _DELETE, {"id": role})).count


_LIST: Final[LiteralString] = f"""
    select {ROLE.names}
      from services
      left join service_roles on service_roles.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(service_slug)s
     order by service_roles.slug collate "C"
"""

_FIND: Final[LiteralString] = f"""
    select {ROLE.names}
      from services
      join service_roles on service_roles.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(service_slug)s and service_roles.slug = %(slug)s
"""

_GET: Final[LiteralString] = f"select {ROLE.names} from service_roles where service_id = %(service)s and slug = %(slug)s"

_COUNT: Final = "select count(*) as count from service_roles where service_id = %(service)s"

_ADD: Final[LiteralString] = f"""
    insert into service_roles ({ROLE.into()})
    select {ROLE.inserted()}
     where not exists (
               select from former_slugs where service_id = %(service)s and noun = 'service_role' and slug = %(slug)s
           )
        on conflict (service_id, slug) do nothing
 returning id
"""

_SAVE: Final[LiteralString] = f"""
    update service_roles set {ROLE.changes("id", "organization", "service", "slug", "created_at")} where id = %(id)s
"""

_DELETE: Final = """
    with gone as (
             delete from service_roles where id = %(id)s returning org_id, service_id, slug
         ),
         ended as (
             delete from relations where object_id = %(id)s and service_id = (select service_id from gone) returning 1
         ),
         former as (
             insert into former_slugs (org_id, service_id, noun, slug)
             select org_id, service_id, 'service_role', slug from gone
                 on conflict do nothing
         )
  select count(*) as count from ended
"""


PERMISSION: Final = Columns(ServicePermission, "permissions", named={"service": "service_id"}, texts=("description",))


class ServicePermissionRows(OnStatements):
    """Implements `ports.services.services.ServicePermissionStore`."""

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ServicePermission] | None:
        return listed(
            await self._statements.ask(
                PERMISSION.found, _PERMISSION_LIST, {"organization": organization, "slug": storable_text(service_slug)}
            )
        )

    async def count(self, service: ServiceId) -> int:
        return only(await self._statements.ask(CountRow, _PERMISSION_COUNT, {"service": service})).count

    async def unknown(self, service: ServiceId, keys: Collection[str]) -> Collection[str]:
        wanted = [storable_text(key) for key in keys]
        return await self._statements.ask_in_order(str, _UNKNOWN, {"service": service, "keys": wanted})

    async def find(self, service: ServiceId, key: str) -> ServicePermission | None:
        return first(await self._statements.ask(PERMISSION.row, _PERMISSION_GET, {"service": service, "key": storable_text(key)}))

    async def add(self, permission: ServicePermission) -> bool:
        return bool(await self._statements.ask(IdRow, _PERMISSION_ADD, PERMISSION.values(permission)))

    async def save(self, permission: ServicePermission) -> None:
        await self._statements.tell("update permissions set description = %(description)s where id = %(id)s", PERMISSION.values(permission))

    async def delete(self, permission: ServicePermission, at: datetime) -> None:
        await self._statements.tell(_PERMISSION_DELETE, {**PERMISSION.values(permission), "at": at})


# Sorted by their bytes, as applications sort.
_PERMISSION_LIST: Final[LiteralString] = f"""
    select {PERMISSION.names}
      from services
      left join permissions on permissions.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by permissions.key collate "C"
"""

_PERMISSION_COUNT: Final = "select count(*) as count from permissions where service_id = %(service)s"

_UNKNOWN: Final = """
    select wanted.key
      from unnest(%(keys)s::text[]) as wanted (key)
     where not exists (select from permissions where permissions.service_id = %(service)s and permissions.key = wanted.key)
"""

_PERMISSION_GET: Final[LiteralString] = f"select {PERMISSION.names} from permissions where service_id = %(service)s and key = %(key)s"

_PERMISSION_ADD: Final[LiteralString] = f"""
    insert into permissions ({PERMISSION.into()})
    select {PERMISSION.inserted()}
     where not exists (
               select from former_slugs where service_id = %(service)s and noun = 'permission' and slug = %(key)s
           )
        on conflict (service_id, key) do nothing
 returning id
"""

_PERMISSION_DELETE: Final = """
    with gone as (
             delete from permissions where id = %(id)s
         ),
         taken as (
             update service_roles
                set permissions = array_remove(permissions, %(key)s), updated_at = %(at)s
              where service_id = %(service)s and %(key)s = any (permissions)
         )
  insert into former_slugs (org_id, service_id, noun, slug)
  select services.org_id, services.id, 'permission', %(key)s from services where services.id = %(service)s
      on conflict do nothing
"""


class _Assignment(Frozen):
    id: UUID
    service_id: UUID
    role: UUID
    role_slug: str
    user_id: UUID | None
    organization_role: str | None
    organization_role_id: UUID | None
    team_id: UUID | None
    team: str | None
    team_name: str | None
    by_directory: bool | None
    created_at: datetime
    email: str | None

    def assignment(self) -> Assignment:
        return Assignment(
            AssignmentId(self.id), ServiceId(self.service_id), ServiceRoleId(self.role), self.role_slug, self._to(), self.created_at
        )

    def _to(self) -> Assignee:
        if self.user_id is not None:
            return ToPerson(UserId(self.user_id), self.email or "")
        if self.team_id is not None:
            return ToTeam(self.team_id, self.team or "", self.team_name or "", bool(self.by_directory))
        role = None if self.organization_role_id is None else RoleId(self.organization_role_id)
        return ToRole(self.organization_role or "", role)


class _Listed:
    """A row of the list. For a service without assignments there is one row of nulls."""

    def __init__(self, **columns: Any) -> None:
        self.assignment = None if columns["id"] is None else _Assignment(**columns).assignment()


class _Role(Frozen):
    id: UUID
    by_directory: bool


class _Team(Frozen):
    id: UUID
    slug: str
    name: str
    by_directory: bool


class AssignmentRows(OnStatements):
    """Implements `ports.services.services.AssignmentStore`."""

    async def list(
        self,
        organization: OrganizationId,
        service_slug: str,
        *,
        role_slug: str | None,
        user: UserId | None,
        after: AssignmentId | None,
        limit: int,
    ) -> AssignmentPage | None:
        parameters = {
            "organization": organization,
            "service_slug": storable_text(service_slug),
            "role_slug": None if role_slug is None else storable_text(role_slug),
            "user": user,
            "after": after or UUID(int=0),
            "limit": limit + 1,
        }
        statement = _LIST_OF_PERSON if user is not None else _LIST_OF_ROLE if role_slug is not None else _ASSIGNMENT_LIST
        rows = await self._statements.ask(_Listed, statement, parameters)
        if not rows:
            return None
        found = [row.assignment for row in rows if row.assignment is not None]
        return AssignmentPage(found[:limit], found[limit - 1].id if len(found) > limit else None)

    async def find(self, organization: OrganizationId, service_slug: str, assignment: AssignmentId) -> Assignment | None:
        parameters = {"organization": organization, "service_slug": storable_text(service_slug), "id": assignment}
        return first_made(await self._statements.ask(_Assignment, _ASSIGNMENT_FIND, parameters), _Assignment.assignment)

    async def is_known(self, organization: OrganizationId, service: ServiceId, user: UserId) -> bool:
        return only(await self._statements.ask(AnswerRow, _IS_KNOWN, {"organization": organization, "service": service, "user": user})).yes

    async def role(self, organization: OrganizationId, slug: str) -> ToRole | None:
        if (built := built_in(slug)) is not None:
            return ToRole(built.slug, None)
        return first_made(
            await self._statements.ask(_Role, _ROLE, {"organization": organization, "slug": storable_text(slug)}),
            lambda row: ToRole(slug, RoleId(row.id), row.by_directory),
        )

    async def team(self, organization: OrganizationId, slug: str) -> ToTeam | None:
        return first_made(
            await self._statements.ask(_Team, _TEAM, {"organization": organization, "slug": storable_text(slug)}),
            lambda row: ToTeam(row.id, row.slug, row.name, row.by_directory),
        )

    async def add(self, organization: OrganizationId, assignment: Assignment) -> bool:
        to = assignment.to
        parameters = {
            "organization": organization,
            "id": assignment.id,
            "service": assignment.service,
            "role": assignment.role,
            "relation": HOLDER,
            "created_at": assignment.created_at,
            "user": to.user if isinstance(to, ToPerson) else None,
            "team": to.id if isinstance(to, ToTeam) else None,
            "role_id": to.id if isinstance(to, ToRole) else None,
            "built_in": to.slug if isinstance(to, ToRole) and to.id is None else None,
        }
        return bool(await self._statements.ask(IdRow, _ASSIGNMENT_ADD, parameters))

    async def remove(self, service: ServiceId, assignment: AssignmentId) -> bool:
        return bool(await self._statements.ask(IdRow, _REMOVE, {"service": service, "id": assignment}))

    async def end_access(self, service: ServiceId, user: UserId) -> None:
        parameters = {"service": service, "user": user}
        await self._statements.tell(_END_CODES, parameters)
        await self._statements.tell(_END_SESSIONS, parameters)


_COLUMNS: Final = """
           held.id, held.service_id, held.object_id as role, service_roles.slug as role_slug, held.user_id,
           coalesce(held.built_in_role, roles.slug) as organization_role, held.role_id as organization_role_id,
           held.team_id, teams.slug as team, teams.name as team_name, teams.source = 'directory' as by_directory, held.created_at,
           users.email
"""
_ITS_ENDS: Final = """
      left join service_roles on service_roles.id = held.object_id
      left join roles on roles.id = held.role_id
      left join teams on teams.id = held.team_id
      left join users on users.id = held.user_id
"""


def _list(condition: LiteralString) -> LiteralString:
    """Each condition finds the rows of the page in the order of an index."""
    return f"""
    select {_COLUMNS}
      from services
      left join lateral (
                select relations.*
                  from relations
                 where {condition} and relations.id > %(after)s
                 order by relations.id
                 limit %(limit)s
           ) as held on true
      {_ITS_ENDS}
     where services.org_id = %(organization)s and services.slug = %(service_slug)s
     order by held.id
    """


_ASSIGNMENT_LIST: Final[LiteralString] = _list("relations.service_id = services.id")

_OF_ROLE: Final = """
    relations.service_id is not null
               and relations.object_id = (
                       select service_roles.id from service_roles
                        where service_roles.service_id = services.id and service_roles.slug = %(role_slug)s
                   )
"""

_LIST_OF_ROLE: Final[LiteralString] = _list(_OF_ROLE)

# A person holds each of the service's roles once at most.
_LIST_OF_PERSON: Final[LiteralString] = _list(f"""
    relations.user_id = %(user)s and relations.organization_id = services.org_id and relations.service_id = services.id
               and (%(role_slug)s::text is null or {_OF_ROLE})
""")

_ASSIGNMENT_FIND: Final[LiteralString] = f"""
    select {_COLUMNS}
      from services
      join relations as held on held.service_id = services.id and held.id = %(id)s
      {_ITS_ENDS}
     where services.org_id = %(organization)s and services.slug = %(service_slug)s
"""

_IS_KNOWN: Final = """
    select exists (select from memberships where org_id = %(organization)s and user_id = %(user)s)
        or exists (select from service_users where service_id = %(service)s and user_id = %(user)s) as yes
"""

# Of the built-in roles, a directory's team can carry only that of a plain member, which the directory gives to everybody as it is.
_ROLE: Final = """
    select id, exists (select from teams where teams.role_id = roles.id and teams.source = 'directory') as by_directory
      from roles
     where org_id = %(organization)s and slug = %(slug)s
       for key share
"""

_TEAM: Final = """
    select id, slug, name, source = 'directory' as by_directory from teams where org_id = %(organization)s and slug = %(slug)s for key share
"""

_ASSIGNMENT_ADD: Final = """
    insert into relations (organization_id, user_id, role_id, team_id, built_in_role, relation, object_type, object_id, id, service_id,
                           created_at)
    values (%(organization)s, %(user)s, %(role_id)s, %(team)s, %(built_in)s, %(relation)s, 'service_role', %(role)s, %(id)s, %(service)s,
            %(created_at)s)
        on conflict do nothing
 returning id
"""

_REMOVE: Final = "delete from relations where id = %(id)s and service_id = %(service)s returning id"

# Of services with other policies, the statement ends nothing.
_NOT_ADMITTED: Final[LiteralString] = f"""
    user_id = %(user)s
       and service_id = (select services.id from services where services.id = %(service)s and not {admits("true", "%(user)s")})
"""

_END_SESSIONS: Final[LiteralString] = revoking(_NOT_ADMITTED)

_END_CODES: Final[LiteralString] = ending_codes(_NOT_ADMITTED)


def roles_held(person: LiteralString, organization: LiteralString, service: LiteralString) -> LiteralString:
    """A subquery: the rows of `service_roles` that a person holds who signs in to the service. The arguments are expressions of ids. Roles
    that are given to everybody are among them. The subquery reads nothing but an empty index if the service has no roles.
    """
    return f"""
        select service_roles.*
          from service_roles
         where service_roles.service_id = {service}
           and (service_roles.given_to_everybody
             or service_roles.id in (select assignments.object_id from {assignments_of(person, organization, service)} as assignments))
    """


class _Held(Frozen):
    slug: str
    permissions: list[str]


class _Explained(Frozen):
    is_deactivated: bool
    is_admitted: bool
    known: list[str]
    teams: list[str]
    roles: list[Mapping[str, Any]]

    def explained(self) -> ExplainedRights:
        barred = BlockReason.DEACTIVATED if self.is_deactivated else None if self.is_admitted else BlockReason.NOT_ADMITTED
        return ExplainedRights(barred=barred, held=[_held(role) for role in self.roles], teams=self.teams)


class _Holder(Frozen):
    user_id: UUID
    holds: bool


class RightsRows(OnStatements):
    """Implements `ports.services.services.RightsStore`.

    Each question reads the assignments as they are now, so a change counts from the next request on.
    """

    async def of(self, organization: OrganizationId, service: ServiceId, user: UserId) -> ServiceRights:
        rows = await self._statements.ask(_Held, _OF, {"organization": organization, "service": service, "user": user})
        return ServiceRights.by({row.slug: row.permissions for row in rows})

    async def explain(
        self, service: ServiceId, user: UserId, permissions: Collection[str] = ()
    ) -> tuple[ExplainedRights, Collection[str]] | None:
        parameters = {"service": service, "user": user, "permissions": [storable_text(one) for one in permissions]}
        return first_made(await self._statements.ask(_Explained, EXPLAIN_RIGHTS, parameters), lambda row: (row.explained(), row.known))

    async def holders(self, service: ServiceId, permission: str, after: UserId | None, limit: int) -> FoundSubjects:
        parameters = {"service": service, "permission": storable_text(permission), "after": after, "looked": _LOOKED_AT}
        rows = await self._statements.ask(_Holder, _HOLDERS, parameters)
        held = [UserId(row.user_id) for row in rows if row.holds]
        if len(held) > limit:
            return FoundSubjects(held[:limit], held[limit - 1])
        return FoundSubjects(held, UserId(rows[-1].user_id) if len(rows) == _LOOKED_AT else None)


def _held(role: Mapping[str, Any]) -> HeldRole:
    return HeldRole(
        slug=role["slug"],
        permissions=role["permissions"],
        given_to_everybody=role["given_to_everybody"],
        given_by=[GivenBy(AssignmentId(UUID(by["id"])), by["team"], by["organization_role"]) for by in role["given_by"]],
    )


_OF: Final[LiteralString] = f"""
    select held.slug, held.permissions
      from ({roles_held("%(user)s", "%(organization)s", "%(service)s")}) as held
"""

# A service and its organization can list anybody. Of people whom they have merely listed, they do not learn the state of the account.
_MAY_BE_KNOWN: Final[LiteralString] = f"({has_come()} or {is_own_member('services.org_id', 'users.id')})"

EXPLAIN_RIGHTS: Final[LiteralString] = f"""
    with person as materialized (
             select users.id, users.deactivated_at is not null and {_MAY_BE_KNOWN} as is_deactivated,
                    services.id as service_id, services.org_id,
                    {admits(IS_MEMBER_HERE, "users.id")} as is_admitted
               from service_users
               join users on users.id = service_users.user_id
               join services on services.id = service_users.service_id
              where service_users.service_id = %(service)s and service_users.user_id = %(user)s
         ),
         given as materialized (
             select assignments.id, assignments.object_id, teams.slug as team,
                    coalesce(assignments.built_in_role, roles.slug) as organization_role
               from person
              cross join lateral {assignments_of("person.id", "person.org_id", "person.service_id")} as assignments
               left join teams on teams.id = assignments.team_id
               left join roles on roles.id = assignments.role_id
         )
  select person.is_deactivated, person.is_admitted,
         array(
             select permissions.key
               from permissions
              where permissions.service_id = person.service_id and permissions.key = any (%(permissions)s::text[])
         ) as known,
         array(
             select teams.slug
               from team_members
               join teams on teams.id = team_members.team_id
              where team_members.user_id = person.id and team_members.org_id = person.org_id
              order by teams.slug collate "C"
         ) as teams,
         (
             select coalesce(
                        jsonb_agg(
                            jsonb_build_object(
                                'slug', held.slug, 'permissions', held.permissions, 'given_to_everybody', held.given_to_everybody,
                                'given_by', held.given_by
                            )
                            order by held.slug collate "C"
                        ),
                        '[]'
                    )
               from (
                        select service_roles.slug, service_roles.permissions, service_roles.given_to_everybody,
                               (
                                   select coalesce(
                                              jsonb_agg(
                                                  jsonb_build_object(
                                                      'id', given.id, 'team', given.team, 'organization_role', given.organization_role
                                                  )
                                                  order by given.id
                                              ),
                                              '[]'
                                          )
                                     from given
                                    where given.object_id = service_roles.id
                               ) as given_by
                          from service_roles
                         where service_roles.service_id = person.service_id
                           and (service_roles.given_to_everybody or service_roles.id in (select given.object_id from given))
                    ) as held
         ) as roles
    from person
"""

# The number of users that one search looks at, whether they hold the permission or not.
_LOOKED_AT: Final = 500

# Of a user whose account is deactivated, the service learns so only if it may know.
_HOLDERS: Final[LiteralString] = f"""
    select looked.user_id,
           permissions.key is not null and not (users.deactivated_at is not null and {_MAY_BE_KNOWN})
           and {admits(IS_MEMBER_HERE, "users.id")}
           and exists (
                   select from ({roles_held("users.id", "services.org_id", "services.id")}) as held
                    where permissions.key = any (held.permissions)
               ) as holds
      from (
               select user_id
                 from service_users
                where service_id = %(service)s and (%(after)s::uuid is null or user_id > %(after)s::uuid)
                order by user_id
                limit %(looked)s
           ) as looked
      join service_users on service_users.service_id = %(service)s and service_users.user_id = looked.user_id
      join users on users.id = looked.user_id
      join services on services.id = %(service)s
      left join permissions on permissions.service_id = services.id and permissions.key = %(permission)s
     order by looked.user_id
"""
