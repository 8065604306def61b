"""Permissions of services in PostgreSQL."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres.columns import Columns, listed
from adapters.postgres.rows import CountRow, IdRow
from adapters.postgres.statements import first, only
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, ServiceId
from core.domain.services.service_roles import ServicePermission

PERMISSION: Final = Columns(ServicePermission, "permissions", named={"service": "service_id"}, texts=("description",))


class ServicePermissionRows(OnStatements):
    """Implements `ports.services.services.ServicePermissionStore`."""

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ServicePermission] | None:
        return listed(
            await self._statements.ask(PERMISSION.found, _LIST, {"organization": organization, "slug": storable_text(service_slug)})
        )

    async def count(self, service: ServiceId) -> int:
        return only(await self._statements.ask(CountRow, _COUNT, {"service": service})).count

    async def unknown(self, service: ServiceId, keys: Collection[str]) -> Collection[str]:
        wanted = [storable_text(key) for key in keys]
        return await self._statements.ask_in_order(str, _UNKNOWN, {"service": service, "keys": wanted})

    async def find(self, service: ServiceId, key: str) -> ServicePermission | None:
        return first(await self._statements.ask(PERMISSION.row, _GET, {"service": service, "key": storable_text(key)}))

    async def add(self, permission: ServicePermission) -> bool:
        return bool(await self._statements.ask(IdRow, _ADD, PERMISSION.values(permission)))

    async def save(self, permission: ServicePermission) -> None:
        await self._statements.tell("update permissions set description = %(description)s where id = %(id)s", PERMISSION.values(permission))

    async def delete(self, permission: ServicePermission, at: datetime) -> None:
        await self._statements.tell(_DELETE, {**PERMISSION.values(permission), "at": at})


# Sorted by their bytes, as applications sort.
_LIST: Final[LiteralString] = f"""
    select {PERMISSION.names}
      from services
      left join permissions on permissions.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by permissions.key collate "C"
"""

_COUNT: Final = "select count(*) as count from permissions where service_id = %(service)s"

_UNKNOWN: Final = """
    select wanted.key
      from unnest(%(keys)s::text[]) as wanted (key)
     where not exists (select from permissions where permissions.service_id = %(service)s and permissions.key = wanted.key)
"""

_GET: Final[LiteralString] = f"select {PERMISSION.names} from permissions where service_id = %(service)s and key = %(key)s"

_ADD: Final[LiteralString] = f"""
    insert into permissions ({PERMISSION.into()})
    select {PERMISSION.inserted()}
     where not exists (
               select from former_slugs where service_id = %(service)s and noun = 'permission' and slug = %(key)s
           )
        on conflict (service_id, key) do nothing
 returning id
"""

_DELETE: Final = """
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
