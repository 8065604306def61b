"""Roles of services in PostgreSQL."""

from collections.abc import Sequence
from typing import Final, LiteralString

from adapters.postgres.columns import Columns, listed
from adapters.postgres.rows import CountRow, IdRow
from adapters.postgres.statements import first, only
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, ServiceId, ServiceRoleId
from core.domain.services.service_roles import ServiceRole

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
