"""Organizations' own roles in PostgreSQL, with the relations that say what they permit."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString

from adapters.postgres.columns import Columns
from adapters.postgres.rows import CountRow, IdRow
from adapters.postgres.statements import first, only
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.branding import named_application
from core.domain.identifiers import OrganizationId, RoleId
from core.domain.tenancy.roles import Assignable, Role, built_in, capabilities_of, kept_permissions

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
        return bool(await self._statements.ask(IdRow, _ADD, _columns(role)))

    async def hold(self, organization: OrganizationId, role: RoleId) -> Role | None:
        parameters = {"organization": organization, "id": role}
        await self._statements.tell(_HOLD, parameters)
        return first(await self._statements.ask(_role, _GET, parameters))

    async def save(self, role: Role) -> None:
        await self._statements.tell(_SAVE, _columns(role))

    async def delete(self, role: RoleId) -> bool:
        return bool(await self._statements.ask(IdRow, _DELETE, {"id": role}))


def _columns(role: Role) -> Mapping[str, Any]:
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
