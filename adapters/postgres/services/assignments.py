"""Assignments of services' roles in PostgreSQL: relations whose object is a role of a service."""

from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.revoking import ending_codes, revoking
from adapters.postgres.rows import AnswerRow, IdRow
from adapters.postgres.statements import first_made, only
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import AssignmentId, OrganizationId, RoleId, ServiceId, ServiceRoleId, UserId
from core.domain.services.service_roles import HOLDER, Assignee, Assignment, AssignmentPage, ToPerson, ToRole, ToTeam
from core.domain.tenancy.roles import built_in
from core.frozen import Frozen


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
        statement = _LIST_OF_PERSON if user is not None else _LIST_OF_ROLE if role_slug is not None else _LIST
        rows = await self._statements.ask(_Listed, statement, parameters)
        if not rows:
            return None
        found = [row.assignment for row in rows if row.assignment is not None]
        return AssignmentPage(found[:limit], found[limit - 1].id if len(found) > limit else None)

    async def find(self, organization: OrganizationId, service_slug: str, assignment: AssignmentId) -> Assignment | None:
        parameters = {"organization": organization, "service_slug": storable_text(service_slug), "id": assignment}
        return first_made(await self._statements.ask(_Assignment, _FIND, parameters), _Assignment.assignment)

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
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

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


_LIST: Final[LiteralString] = _list("relations.service_id = services.id")

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

_FIND: Final[LiteralString] = f"""
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

_ADD: Final = """
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
