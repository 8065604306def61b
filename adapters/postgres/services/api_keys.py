"""API keys and client secrets of applications in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from adapters.postgres.columns import Columns, CountRow, listed, page_of, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import OnStatements, OnTransaction, ask, first, only
from adapters.postgres.tenancy.management_keys import KeyLookups, KeyTable, added, adding, asked_keys
from core.domain.identifiers import ApiKeyId, ClientSecretId, ManagementKeyId, OrganizationId, ServiceId
from core.domain.requests import Listed
from core.domain.services.api_keys import ApiKey, ClientSecret, KeyHolder, Permission, PlacedKey, PlacedSecret, known_permissions
from core.domain.services.services import ServiceProfile, ServiceType
from core.domain.tenancy.management_keys import KnownKey

API_KEY: Final = Columns(
    ApiKey,
    "api_keys",
    named={"service": "service_id"},
    texts=("name",),
    # Words that this release does not know permit nothing.
    turned={"permissions": (known_permissions, list)},
)


class KnownApiKeyRow(NamedTuple):
    id: UUID
    digest: bytes
    name: str
    prefix: str
    permissions: list[str]
    expires_at: datetime | None
    service_id: UUID
    service_slug: str
    service_name: str
    service_type: str
    service_created_at: datetime
    organization_id: UUID
    organization_slug: str
    organization_is_active: bool

    def known(self) -> KnownKey[KeyHolder]:
        holder = KeyHolder(
            ApiKeyId(self.id),
            ServiceId(self.service_id),
            self.service_slug,
            OrganizationId(self.organization_id),
            self.organization_slug,
            _permissions(tuple(self.permissions)),
            self.name,
            self.prefix,
            ServiceProfile(self.service_name, ServiceType(self.service_type), self.service_created_at),
        )
        return KnownKey(holder, self.digest, self.expires_at, self.organization_is_active)


@lru_cache(maxsize=1000)
def _permissions(words: tuple[str, ...]) -> frozenset[Permission]:
    """Few combinations of permissions are in use, so a cache spares making the same set again."""
    return frozenset(known_permissions(words))


def _placed_key(**columns: Any) -> PlacedKey:
    return PlacedKey(API_KEY.taken(columns), **columns)


class PostgresApiKeys(KeyLookups[KeyHolder]):
    """Implements `ports.services.services.ApiKeyLookup`.

    All statements join the views `services` and `organizations`, which leave out rows that are being deleted.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, KnownApiKeyRow, FIND)

    async def list(self, organization: OrganizationId, service_slug: str, limit: int, offset: int) -> Listed[ApiKey] | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "limit": limit, "offset": offset}
        rows = await ask(self._pool, API_KEY.counted, LIST, parameters)
        return page_of(rows) if rows else None

    async def find_by_id(self, organization: OrganizationId, service_slug: str, key: ApiKeyId) -> ApiKey | None:
        return first(
            await ask(self._pool, API_KEY.row, _GET, {"organization": organization, "slug": storable_text(service_slug), "id": key})
        )


class ApiKeyRows(OnTransaction):
    """Implements `ports.services.services.ApiKeyStore` in one transaction."""

    async def add(self, key: ApiKey, digest: bytes) -> int | None:
        return await added(self._transaction, _ADD, {**API_KEY.values(key), "service_id": key.service, "digest": digest})

    async def delete(self, organization: OrganizationId, service_slug: str, key: ApiKeyId) -> PlacedKey | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "id": key}
        return first(await self._transaction.ask(_placed_key, _DELETE, parameters))

    async def delete_made(self, key: ManagementKeyId) -> Sequence[PlacedKey]:
        return await self._transaction.ask(_placed_key, _DELETE_MADE, {"key": key})

    async def revoke(self, prefix: str) -> PlacedKey | None:
        return first(await self._transaction.ask(_placed_key, _REVOKE, {"prefix": storable_text(prefix)}))


API_KEYS: Final = KeyTable("api_keys", "service_id", ("permissions", "made_by_key"))

KNOWN: Final = """
           keys.id, keys.digest, keys.name, keys.prefix, keys.permissions, keys.expires_at,
           services.id as service_id, services.slug as service_slug, services.name as service_name, services.service_type,
           services.created_at as service_created_at,
           organizations.id as organization_id, organizations.slug as organization_slug,
           organizations.status = 'active' as organization_is_active
"""
ITS_SERVICE: Final = """
     cross join lateral (select * from services where services.id = keys.service_id limit 1) as services
     cross join lateral (select * from organizations where organizations.id = services.org_id limit 1) as organizations
"""

FIND: Final[LiteralString] = f"select {KNOWN} from {asked_keys(API_KEYS)} {ITS_SERVICE}"

# A service has few enough keys to count them.
LIST: Final[LiteralString] = f"""
    select counted.total, api_keys.*
      from services
     cross join lateral (select count(*) as total from api_keys where api_keys.service_id = services.id) as counted
      left join lateral (
                select {API_KEY.names}
                  from api_keys
                 where api_keys.service_id = services.id
                 order by api_keys.created_at desc, api_keys.id desc
                 limit %(limit)s
                offset %(offset)s
           ) as api_keys on true
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by api_keys.created_at desc, api_keys.id desc
"""

_GET: Final[LiteralString] = f"""
    select {API_KEY.names}
      from api_keys
      join services on services.id = api_keys.service_id
     where api_keys.id = %(id)s and services.org_id = %(organization)s and services.slug = %(slug)s
"""

_ADD: Final[LiteralString] = adding(API_KEYS)

_DELETED: Final[LiteralString] = f"""
    delete from api_keys
     using services
      join organizations on organizations.id = services.org_id
     where services.id = api_keys.service_id {{condition}}
 returning {API_KEY.names}, services.slug as service_slug, organizations.id as organization, organizations.slug as organization_slug
"""

_DELETE: Final[LiteralString] = _DELETED.format(
    condition="and api_keys.id = %(id)s and services.org_id = %(organization)s and services.slug = %(slug)s"
)

_DELETE_MADE: Final[LiteralString] = _DELETED.format(condition="and api_keys.made_by_key = %(key)s")

_REVOKE: Final[LiteralString] = _DELETED.format(condition="and api_keys.prefix = %(prefix)s")


CLIENT_SECRETS: Final = KeyTable("client_secrets", "service_id")
SECRET: Final = Columns(ClientSecret, "client_secrets", named={"service": "service_id"})


def _placed_secret(**columns: Any) -> PlacedSecret:
    return PlacedSecret(SECRET.taken(columns), **columns)


class ClientSecretRows(OnStatements):
    """Implements `ports.services.services.ClientSecretStore`."""

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ClientSecret] | None:
        return listed(await self._statements.ask(SECRET.found, _LIST, {"organization": organization, "slug": storable_text(service_slug)}))

    async def count(self, service: ServiceId) -> int:
        return only(await self._statements.ask(CountRow, _COUNT, {"service": service})).count

    async def add(self, secret: ClientSecret, digest: bytes) -> None:
        await self._statements.tell(_CLIENT_SECRET_ADD, {**SECRET.values(secret), "digest": digest})

    async def delete(self, service: ServiceId, secret: ClientSecretId) -> ClientSecret | None:
        return first(await self._statements.ask(SECRET.row, _CLIENT_SECRET_DELETE, {"service": service, "id": secret}))

    async def delete_made(self, key: ManagementKeyId) -> Sequence[PlacedSecret]:
        await self._statements.tell(_HOLD_MADE, {"key": key})
        return await self._statements.ask(_placed_secret, _CLIENT_SECRET_DELETE_MADE, {"key": key})


_COUNT: Final = "select count(*) as count from client_secrets where service_id = %(service)s"

_CLIENT_SECRET_ADD: Final[LiteralString] = f"insert into client_secrets ({SECRET.into('digest')}) values ({SECRET.inserted('digest')})"

_CLIENT_SECRET_DELETE: Final[LiteralString] = f"""
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

_CLIENT_SECRET_DELETE_MADE: Final[LiteralString] = f"""
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
