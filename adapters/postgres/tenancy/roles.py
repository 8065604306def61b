"""Organizations' own roles in PostgreSQL, with the relations that say what they permit."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.rows import CountRow, IdRow
from adapters.postgres.statements import Statements
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import OrganizationId, RoleId
from core.domain.tenancy.roles import Assignable, Role, built_in, capabilities_of, kept_permissions
from core.frozen import Frozen


class _Role(Frozen):
    id: UUID
    org_id: UUID
    slug: str
    name: str
    description: str
    permissions: list[str]
    created_at: datetime
    updated_at: datetime

    def role(self) -> Role:
        return Role(
            id=RoleId(self.id),
            organization=OrganizationId(self.org_id),
            slug=self.slug,
            name=self.name,
            description=self.description,
            permissions=kept_permissions(self.permissions),
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


class _Offered(_Role):
    gives_service_roles: bool

    def assignable(self) -> Assignable:
        role = self.role()
        return Assignable(role.slug, role.id, capabilities_of(role.permissions), self.gives_service_roles)


class RoleRows:
    """Implements `ports.tenancy.roles.RoleStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def list(self, organization: OrganizationId) -> Sequence[Role]:
        return [row.role() for row in await self._statements.ask(_Role, _LIST, {"organization": organization})]

    async def get(self, organization: OrganizationId, role: RoleId) -> Role | None:
        rows = await self._statements.ask(_Role, _GET, {"organization": organization, "id": role})
        return rows[0].role() if rows else None

    async def assignable(self, organization: OrganizationId, slug: str) -> Assignable | None:
        if (built := built_in(slug)) is not None:
            return built
        parameters = {"organization": organization, "slug": storable_text(slug)}
        await self._statements.tell(_HOLD_BY_SLUG, parameters)
        rows = await self._statements.ask(_Offered, _FIND_BY_SLUG, parameters)
        return rows[0].assignable() if rows else None

    async def count(self, organization: OrganizationId) -> int:
        (answer,) = await self._statements.ask(CountRow, _COUNT, {"organization": organization})
        return answer.count

    async def add(self, role: Role) -> bool:
        parameters = {"organization": role.organization, "slug": role.slug, "created_at": role.created_at, **_columns(role)}
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def hold(self, organization: OrganizationId, role: RoleId) -> Role | None:
        parameters = {"organization": organization, "id": role}
        await self._statements.tell(_HOLD, parameters)
        rows = await self._statements.ask(_Role, _GET, parameters)
        return rows[0].role() if rows else None

    async def save(self, role: Role) -> None:
        await self._statements.tell(_SAVE, _columns(role))

    async def delete(self, role: RoleId) -> bool:
        return bool(await self._statements.ask(IdRow, _DELETE, {"id": role}))


def _columns(role: Role) -> dict[str, Any]:
    """The id, and every column that may change."""
    return {
        "id": role.id,
        "name": storable_text(role.name),
        "description": storable_text(role.description),
        "permissions": sorted(role.permissions),
        "updated_at": role.updated_at,
    }


def gives_service_roles(role: LiteralString) -> LiteralString:
    """Whether roles of services are assigned to the role of an organization's own with this id. One look-up in an index."""
    return f"exists (select from relations where relations.role_id = {role} and relations.object_type = 'service_role')"


_COLUMNS: Final = """
           roles.id, roles.org_id, roles.slug, roles.name, roles.description, roles.created_at, roles.updated_at,
           array(
               select relation from relations where relations.role_id = roles.id and relations.object_id = roles.org_id
           ) as permissions"""
_ROLE: Final[LiteralString] = f"select {_COLUMNS} from roles"

_GET: Final[LiteralString] = f"{_ROLE} where roles.id = %(id)s and roles.org_id = %(organization)s"

_FIND_BY_SLUG: Final[LiteralString] = f"""
    select {_COLUMNS}, {gives_service_roles("roles.id")} as gives_service_roles
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

_ADD: Final = """
    with added as (
             insert into roles (id, org_id, slug, name, description, created_at, updated_at)
             values (%(id)s, %(organization)s, %(slug)s, %(name)s, %(description)s, %(created_at)s, %(updated_at)s)
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
