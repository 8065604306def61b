"""Client secrets in PostgreSQL."""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

from adapters.postgres.columns import Columns, listed
from adapters.postgres.rows import CountRow
from adapters.postgres.statements import first, only
from adapters.postgres.storable import storable_text
from adapters.postgres.tenancy.keys.machine_keys import KeyTable
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import ClientSecretId, ManagementKeyId, OrganizationId, ServiceId
from core.domain.services.api_keys import ClientSecret, PlacedSecret

CLIENT_SECRETS: Final = KeyTable("client_secrets", "service_id")
SECRET: Final = Columns(ClientSecret, "client_secrets", named={"service": "service_id"})


def _placed(**columns: Any) -> PlacedSecret:
    return PlacedSecret(SECRET.taken(columns), **columns)


class ClientSecretRows(OnStatements):
    """Implements `ports.services.services.ClientSecretStore`."""

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ClientSecret] | None:
        return listed(await self._statements.ask(SECRET.found, _LIST, {"organization": organization, "slug": storable_text(service_slug)}))

    async def count(self, service: ServiceId) -> int:
        return only(await self._statements.ask(CountRow, _COUNT, {"service": service})).count

    async def add(self, secret: ClientSecret, digest: bytes) -> None:
        await self._statements.tell(_ADD, {**SECRET.values(secret), "digest": digest})

    async def delete(self, service: ServiceId, secret: ClientSecretId) -> ClientSecret | None:
        return first(await self._statements.ask(SECRET.row, _DELETE, {"service": service, "id": secret}))

    async def delete_made(self, key: ManagementKeyId) -> Sequence[PlacedSecret]:
        await self._statements.tell(_HOLD_MADE, {"key": key})
        return await self._statements.ask(_placed, _DELETE_MADE, {"key": key})


_COUNT: Final = "select count(*) as count from client_secrets where service_id = %(service)s"

_ADD: Final[LiteralString] = f"insert into client_secrets ({SECRET.into('digest')}) values ({SECRET.inserted('digest')})"

_DELETE: Final[LiteralString] = f"""
    delete from client_secrets
     where id = %(id)s and service_id = %(service)s
 returning {SECRET.names}
"""

# Deleting a secret changes its service. Two transactions that take the services in one order cannot deadlock.
_HOLD_MADE: Final = """
    select
      from all_services
     where id in (select service_id from client_secrets where made_by_key = %(key)s)
     order by id
       for no key update
"""

_DELETE_MADE: Final[LiteralString] = f"""
    delete from client_secrets
     using services
     where services.id = client_secrets.service_id and client_secrets.made_by_key = %(key)s
 returning {SECRET.names}, services.slug as service_slug, services.org_id as organization
"""

_LIST: Final[LiteralString] = f"""
    select {SECRET.names}
      from services
      left join client_secrets on client_secrets.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by client_secrets.created_at, client_secrets.id
"""
