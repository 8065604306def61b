"""People's rights in services, in PostgreSQL. Each question reads the assignments as they are now, so a change counts from the next request
on.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.proofs.sign_in_policy import admits, assignments_of
from adapters.postgres.statements import first_made
from adapters.postgres.storable import storable_text
from adapters.postgres.ties import IS_MEMBER_HERE, has_come, is_own_member
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import AssignmentId, OrganizationId, ServiceId, UserId
from core.domain.services.rights import BlockReason, ExplainedRights, FoundSubjects, GivenBy, HeldRole, ServiceRights
from core.frozen import Frozen


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
    """Implements `ports.services.services.RightsStore`."""

    async def of(self, organization: OrganizationId, service: ServiceId, user: UserId) -> ServiceRights:
        rows = await self._statements.ask(_Held, _OF, {"organization": organization, "service": service, "user": user})
        return ServiceRights.by({row.slug: row.permissions for row in rows})

    async def explain(
        self, service: ServiceId, user: UserId, permissions: Collection[str] = ()
    ) -> tuple[ExplainedRights, Collection[str]] | None:
        parameters = {"service": service, "user": user, "permissions": [storable_text(one) for one in permissions]}
        return first_made(await self._statements.ask(_Explained, EXPLAIN, parameters), lambda row: (row.explained(), row.known))

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

EXPLAIN: Final[LiteralString] = f"""
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
