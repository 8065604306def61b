"""Roles of services in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.rows import CountRow, IdRow
from adapters.postgres.statements import Statements
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import OrganizationId, ServiceId, ServiceRoleId
from core.domain.services.service_roles import ServiceRole
from core.frozen import Frozen


class _Role(Frozen):
    id: UUID
    org_id: UUID
    service_id: UUID
    slug: str
    name: str
    description: str
    permissions: list[str]
    given_to_everybody: bool
    created_at: datetime
    updated_at: datetime

    def role(self) -> ServiceRole:
        return ServiceRole(
            id=ServiceRoleId(self.id),
            organization=OrganizationId(self.org_id),
            service=ServiceId(self.service_id),
            slug=self.slug,
            name=self.name,
            description=self.description,
            permissions=tuple(self.permissions),
            given_to_everybody=self.given_to_everybody,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


class _Listed:
    """A row of the list. For a service without roles there is one row of nulls."""

    def __init__(self, **columns: Any) -> None:
        self.role = None if columns["id"] is None else _Role(**columns).role()


class ServiceRoleRows:
    """Implements `ports.services.service_roles.ServiceRoleStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ServiceRole] | None:
        rows = await self._statements.ask(_Listed, _LIST, {"organization": organization, "service_slug": storable_text(service_slug)})
        if not rows:
            return None
        return [row.role for row in rows if row.role is not None]

    async def find(self, organization: OrganizationId, service_slug: str, slug: str) -> ServiceRole | None:
        parameters = {"organization": organization, "service_slug": storable_text(service_slug), "slug": storable_text(slug)}
        rows = await self._statements.ask(_Role, _FIND, parameters)
        return rows[0].role() if rows else None

    async def get(self, service: ServiceId, slug: str) -> ServiceRole | None:
        rows = await self._statements.ask(_Role, _GET, {"service": service, "slug": storable_text(slug)})
        return rows[0].role() if rows else None

    async def count(self, service: ServiceId) -> int:
        (answer,) = await self._statements.ask(CountRow, _COUNT, {"service": service})
        return answer.count

    async def add(self, role: ServiceRole) -> bool:
        parameters = {
            **_columns(role),
            "organization": role.organization,
            "service": role.service,
            "slug": role.slug,
            "created_at": role.created_at,
        }
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def save(self, role: ServiceRole) -> None:
        await self._statements.tell(_SAVE, _columns(role))

    async def delete(self, role: ServiceRoleId) -> int:
        (answer,) = await self._statements.ask(CountRow, _DELETE, {"id": role})
        return answer.count


def _columns(role: ServiceRole) -> dict[str, Any]:
    """The id, and every column that may change."""
    return {
        "id": role.id,
        "name": storable_text(role.name),
        "description": storable_text(role.description),
        "permissions": list(role.permissions),
        "given_to_everybody": role.given_to_everybody,
        "updated_at": role.updated_at,
    }


_ROLE: Final = """
           service_roles.id, service_roles.org_id, service_roles.service_id, service_roles.slug, service_roles.name,
           service_roles.description, service_roles.permissions, service_roles.given_to_everybody, service_roles.created_at,
           service_roles.updated_at
"""

_LIST: Final[LiteralString] = f"""
    select {_ROLE}
      from services
      left join service_roles on service_roles.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(service_slug)s
     order by service_roles.slug collate "C"
"""

_FIND: Final[LiteralString] = f"""
    select {_ROLE}
      from services
      join service_roles on service_roles.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(service_slug)s and service_roles.slug = %(slug)s
"""

_GET: Final[LiteralString] = f"select {_ROLE} from service_roles where service_id = %(service)s and slug = %(slug)s"

_COUNT: Final = "select count(*) as count from service_roles where service_id = %(service)s"

_ADD: Final = """
    insert into service_roles (id, org_id, service_id, slug, name, description, permissions, given_to_everybody, created_at, updated_at)
    select %(id)s, %(organization)s, %(service)s, %(slug)s, %(name)s, %(description)s, %(permissions)s::text[], %(given_to_everybody)s,
           %(created_at)s, %(updated_at)s
     where not exists (
               select from former_slugs where service_id = %(service)s and noun = 'service_role' and slug = %(slug)s
           )
        on conflict (service_id, slug) do nothing
 returning id
"""

_SAVE: Final = """
    update service_roles
       set name = %(name)s, description = %(description)s, permissions = %(permissions)s::text[],
           given_to_everybody = %(given_to_everybody)s, updated_at = %(updated_at)s
     where id = %(id)s
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
