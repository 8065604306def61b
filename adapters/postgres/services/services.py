"""Services in PostgreSQL. The statements read the view `services`, which leaves out services that are being deleted."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns
from adapters.postgres.rows import CountRow, IdRow
from adapters.postgres.statements import ask, first, only
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.tenancy.organizations import ORGANIZATION, TIER
from adapters.postgres.transaction import OnPool, OnStatements
from core.domain.identifiers import ClientId, LogoId, OrganizationId, ServiceId
from core.domain.requests import MOST_ROWS_COUNTED, Listed
from core.domain.services.clients import shown
from core.domain.services.services import (
    ListedService,
    RegisteredService,
    Service,
    ServiceList,
    ServiceType,
    ServiceUsage,
    service_usage,
)
from core.domain.tenancy.branding import Logo
from core.domain.tenancy.organizations import Organization
from ports.services.services import KeptMetadata

SERVICE: Final = Columns(
    Service,
    "services",
    named={"organization": "org_id", "client_id": "oauth_client_id"},
    apart=("metadata",),
    texts=("name",),
    derived=("client_id", "logo_digest"),
    # Of a metadata client, the address of its document.
    turned={"client_id": (shown, str)},
    prefix="service_",
)


def _usage(*, service_count: int, **columns: Any) -> tuple[Organization, ServiceUsage]:
    organization = ORGANIZATION.taken(columns)
    return organization, service_usage(service_count, organization, TIER.row(**columns))


def _listed(*, plan_count: int | None, subscription_count: int | None, **columns: Any) -> tuple[ListedService | None, Mapping[str, Any]]:
    """For an empty page, one row without a service has the organization's columns."""
    service = SERVICE.taken_or_none(columns)
    return None if service is None else ListedService(service, plan_count or 0, subscription_count or 0), columns


class ClientIdRow(NamedTuple):
    client_id: str


class ServiceRows(OnStatements):
    """Implements `ports.services.services.ServiceStore`."""

    async def list(
        self, organization: OrganizationId, *, service_type: ServiceType | None = None, limit: int | None = None, offset: int = 0
    ) -> ServiceList | None:
        parameters = {"organization": organization, "type": service_type, "limit": limit, "offset": offset}
        rows = await self._statements.ask(_listed, LIST if service_type is None else LIST_OF_TYPE, parameters)
        if not rows:
            return None
        _, usage = _usage(**rows[0][1])
        return ServiceList([listed for listed, _ in rows if listed is not None], usage)

    async def find(self, organization: OrganizationId, slug: str) -> Service | None:
        return first(await self._statements.ask(SERVICE.row, _FIND, {"organization": organization, "slug": storable_text(slug)}))

    async def metadata(self, service: ServiceId) -> KeptMetadata | None:
        return first(await self._statements.ask(KeptMetadata, _METADATA, {"service": service}))

    async def add(self, service: Service) -> bool:
        return bool(await self._statements.ask(IdRow, _ADD, _values(service)))

    async def usage(self, organization: OrganizationId) -> tuple[Organization, ServiceUsage]:
        return only(await self._statements.ask(_usage, _USAGE, {"organization": organization}))

    async def hold(self, organization: OrganizationId, slug: str) -> Service | None:
        await self._statements.tell(_HOLD, {"organization": organization, "slug": storable_text(slug)})
        return await self.find(organization, slug)

    async def save(self, service: Service) -> None:
        await self._statements.tell(_SAVE, _values(service))

    async def replace_logo(self, service: Service, logo: Logo | None, id: LogoId) -> None:  # noqa: A002 - the noun's own word
        parameters = {
            "id": id,
            "service": service.id,
            "at": service.updated_at,
            "digest": None if logo is None else logo.digest,
            "media_type": None if logo is None else logo.media_type,
            "content": None if logo is None else logo.content,
        }
        await self._statements.tell(_POINT_AT_LOGO, parameters)
        await self._statements.tell(_REMOVE_LOGO if logo is None else _KEEP_LOGO, parameters)

    async def keep_client_id(self, service: ServiceId, kept: ClientId | None) -> ClientId | None:
        try:
            rows = await self._statements.ask(ClientIdRow, _KEEP_CLIENT_ID, {"id": service, "kept": kept})
        except UniqueViolation:
            return None
        return ClientId(rows[0].client_id)

    async def end_requests(self, service: ServiceId) -> None:
        await self._statements.tell(_END_REQUESTS, {"id": service})

    async def delete(self, service: ServiceId, at: datetime) -> None:
        await self._statements.tell(_DELETE, {"id": service, "at": at})


def _registered(**columns: Any) -> RegisteredService:
    return RegisteredService(service=SERVICE.taken(columns), **columns)


class PostgresServiceRegister(OnPool):
    """Implements `ports.services.services.ServiceRegister`."""

    async def list(self, organization_slug: str | None, limit: int, offset: int) -> Listed[RegisteredService]:
        organization = None if organization_slug is None else storable_text(organization_slug)
        parameters = {"organization": organization, "limit": limit, "offset": offset, "most": MOST_ROWS_COUNTED}
        listed = await ask(self._pool, _registered, _LIST_REGISTERED, parameters)
        return Listed(listed, only(await ask(self._pool, CountRow, _COUNT_REGISTERED, parameters)).count)

    async def find(self, organization_slug: str, slug: str) -> RegisteredService | None:
        parameters = {"organization": storable_text(organization_slug), "slug": storable_text(slug)}
        return first(await ask(self._pool, _registered, _FIND_REGISTERED, parameters))


def _values(service: Service) -> dict[str, Any]:
    metadata = None if service.metadata is None else Jsonb(storable(service.metadata))
    return {**SERVICE.values(service), "metadata": metadata}


# The dispatchers of logout notices take turns at this row. The row stays when the address is removed, because notices that are under way
# still need the row.
_RECEIVER: Final = """
             insert into logout_receivers (service_id)
             select changed.id from changed where %(backchannel_logout_uri)s::text is not null
                 on conflict (service_id) do update set failing_since = null, rests_until = null
"""

# The slug of a service that is being deleted is free again: the unique index leaves out deleted services.
_ADD: Final[LiteralString] = f"""
    with changed as (
             insert into all_services ({SERVICE.into("client_id")}, metadata)
             values ({SERVICE.inserted("client_id")}, coalesce(%(metadata)s, '{{}}'))
                 on conflict (org_id, slug) where deleted_at is null do nothing
          returning id
         ),
         receiver as ({_RECEIVER})
  select id from changed
"""

_USAGE: Final[LiteralString] = f"""
    select {ORGANIZATION.names},
           {TIER.names},
           (
               select count(*) from services where services.org_id = organizations.id and services.service_type <> 'metadata'
           ) as service_count
      from organizations
      join tiers on tiers.id = organizations.tier_id
     where organizations.id = %(organization)s
"""

_FIND: Final[LiteralString] = f"select {SERVICE.names}, services.metadata from services where org_id = %(organization)s and slug = %(slug)s"

_METADATA: Final = """
    select services.metadata as of_service, organizations.metadata as of_organization
      from services
      join organizations on organizations.id = services.org_id
     where services.id = %(service)s
"""

# A statement of its own, so that the next statement sees what others committed while this one waited. It is the weakest lock that works:
# sessions and other rows that refer to the service can be added meanwhile.
_HOLD: Final = "select from services where org_id = %(organization)s and slug = %(slug)s for no key update"

_SAVE: Final[LiteralString] = f"""
    with changed as (
             update services
                set {SERVICE.changes("id", "organization", "slug", "created_at")},
                    metadata = coalesce(%(metadata)s, metadata)
              where id = %(id)s
          returning id
         )
    {_RECEIVER}
"""

_POINT_AT_LOGO: Final = "update services set logo_digest = %(digest)s, updated_at = %(at)s where id = %(service)s"

_REMOVE_LOGO: Final = "delete from service_logos where service_id = %(service)s"

_KEEP_LOGO: Final = """
    insert into service_logos (id, service_id, digest, media_type, content, created_at)
    values (%(id)s, %(service)s, %(digest)s, %(media_type)s, %(content)s, now())
        on conflict (service_id) do update
       set id = excluded.id, digest = excluded.digest, media_type = excluded.media_type, content = excluded.content,
           created_at = excluded.created_at
"""

_KEEP_CLIENT_ID: Final = """
    update all_services set kept_client_id = %(kept)s where id = %(id)s returning coalesce(kept_client_id, client_id::text) as client_id
"""

_END_REQUESTS: Final = """
    with ended as (
             delete from authorization_codes where service_id = %(id)s and redeemed_at is null
         )
    delete from pushed_requests where service_id = %(id)s
"""

# A metadata client may come again at once, as another service.
_DELETE: Final = """
    update all_services
       set deleted_at = %(at)s, kept_client_id = case when service_type = 'metadata' then null else kept_client_id end
     where id = %(id)s
"""

# The organization's row gives the limit on its services. An index finds the services of the page in their order. The plans are counted only
# for the services of the page.
_LIST: Final[LiteralString] = f"""
    select counted.count as service_count, of_plans.plan_count, of_plans.subscription_count,
           {ORGANIZATION.names},
           {TIER.names},
           {SERVICE.names}
      from organizations
      join tiers on tiers.id = organizations.tier_id
     cross join lateral (
                -- Metadata clients have a limit of their own.
                select count(*) as count from services where services.org_id = organizations.id and services.service_type <> 'metadata'
           ) as counted
      left join lateral (
                select *
                  from services
                 where services.org_id = organizations.id {{condition}}
                 order by services.created_at, services.id
                 limit %(limit)s::bigint
                offset %(offset)s::bigint
           ) as services on true
      left join lateral (
                select count(*) as plan_count, sum(plans.subscription_count) as subscription_count
                  from plans
                 where plans.service_id = services.id and plans.deleted_at is null
           ) as of_plans on true
     where organizations.id = %(organization)s
     order by services.created_at, services.id
"""

LIST: Final[LiteralString] = _LIST.format(condition="")
LIST_OF_TYPE: Final[LiteralString] = _LIST.format(condition="and services.service_type = %(type)s")

_REGISTERED: Final[LiteralString] = f"""
    select organizations.slug as organization_slug, organizations.status = 'active' as organization_is_active, services.user_count as users,
           of_plans.plan_count as plans, of_plans.subscription_count as subscriptions,
           (select count(*) from api_keys where api_keys.service_id = services.id) as api_keys,
           (select count(*) from client_secrets where client_secrets.service_id = services.id) as client_secrets,
           {SERVICE.names}
      from services
      join organizations on organizations.id = services.org_id
     cross join lateral (
                select count(*) filter (where plans.deleted_at is null) as plan_count,
                       coalesce(sum(plans.subscription_count), 0) as subscription_count
                  from plans
                 where plans.service_id = services.id
           ) as of_plans
"""

_FIND_REGISTERED: Final[LiteralString] = f"{_REGISTERED} where organizations.slug = %(organization)s and services.slug = %(slug)s"

_WANTED: Final = """
             select services.id
               from services
               join organizations on organizations.id = services.org_id
              where %(organization)s::text is null or organizations.slug = %(organization)s
"""

_COUNT_REGISTERED: Final[LiteralString] = f"select count(*) as count from ({_WANTED} limit %(most)s) as counted"

# Ids grow with time, so the largest is the newest.
_LIST_REGISTERED: Final[LiteralString] = f"""
    {_REGISTERED}
     where services.id in ({_WANTED} order by services.id desc limit %(limit)s offset %(offset)s)
     order by services.id desc
"""
