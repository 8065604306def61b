"""Applications in PostgreSQL, with their proxy, claims and usage figures."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

import trio
from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from adapters.postgres.columns import AnswerRow, Columns, CountRow, IdRow, storable, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import OnPool, OnStatements, ask, first, first_made, only
from adapters.postgres.tenancy.organizations import ORGANIZATION, TIER
from core.domain.claims import ClaimPlace, ClaimSource, ServiceClaim
from core.domain.identifiers import ClientId, LogoId, OrganizationId, ServiceClaimId, ServiceId
from core.domain.identity.sessions import LOGOUT_TOPIC
from core.domain.requests import MOST_ROWS_COUNTED, Listed
from core.domain.services.clients import shown
from core.domain.services.proxies import KeptProxy, ProxySettings, domains_above
from core.domain.services.rights import ServiceRights
from core.domain.services.service_claims import ConfiguredClaim
from core.domain.services.service_users import ServiceAnalytics
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
from core.frozen import Frozen
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
    """Implements `ports.services.services.ServiceStore`.

    The statements read the view `services`, which leaves out applications that are being deleted.
    """

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
        # Notices wait while a service has no address for them.
        self._statements.ring(LOGOUT_TOPIC)

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

# The caller holds the service. Whoever redeems a code holds its row, and waits for the service to count its first user. That request was
# first, and its code is no longer one of those that end.
_END_REQUESTS: Final = """
    with waiting as materialized (
             select id from authorization_codes where service_id = %(id)s and redeemed_at is null for update skip locked
         ),
         ended as (
             delete from authorization_codes where id = any (array(select id from waiting))
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


PROXY_SETTINGS: Final = Columns(ProxySettings, "proxies", apart=("hosts",))


class _Host(Frozen):
    host: str


class _Rights(Frozen):
    roles: list[str]
    permissions: list[str]


def _kept(*, hosts: list[str], approved_hosts: list[str], closed_hosts: list[str], **columns: object) -> KeptProxy:
    kept = PROXY_SETTINGS.taken_or_none(dict(columns), hosts=tuple(hosts)) or ProxySettings(hosts=tuple(hosts))
    return KeptProxy(settings=kept, approved_hosts=tuple(approved_hosts), closed_hosts=tuple(closed_hosts))


class ProxyRows(OnStatements):
    """Implements `ports.services.services.ProxyStore`."""

    async def find(self, organization: OrganizationId, service_slug: str) -> KeptProxy | None:
        return first(await self._statements.ask(_kept, _PROXY_FIND, {"organization": organization, "slug": storable_text(service_slug)}))

    async def rights(self, service: ServiceId) -> ServiceRights:
        found = only(await self._statements.ask(_Rights, _RIGHTS, {"service": service}))
        return ServiceRights(tuple(found.roles), tuple(found.permissions))

    async def proved(self, organization: OrganizationId, hosts: Collection[str]) -> Collection[str]:
        asked = list(hosts)
        above = [" ".join(domains_above(host)) for host in asked]
        rows = await self._statements.ask(_Host, _PROVED, {"organization": organization, "hosts": asked, "above": above})
        return {row.host for row in rows}

    async def claim(self, service: ServiceId, host: str, approved_at: datetime | None) -> bool:
        parameters = {"service": service, "host": host, "above": " ".join(domains_above(host)), "approved_at": approved_at}
        return only(await self._statements.ask(AnswerRow, _CLAIM, parameters)).yes

    async def release(self, service: ServiceId, but: Sequence[str]) -> None:
        await self._statements.tell(_RELEASE, {"service": service, "but": list(but)})

    async def save(self, service: ServiceId, settings: ProxySettings, at: datetime) -> None:
        await self._statements.tell(_PROXY_SAVE, {**PROXY_SETTINGS.values(settings), "service_id": service, "updated_at": at})


def nearest_owner(above: LiteralString) -> LiteralString:
    """A subquery: the organization that has proved the nearest of the domains. `above` is an expression of a text with all of them, which a
    host lies in. Only one organization can have proved a domain.
    """
    return f"""(
               select proved.org_id
                 from (
                          select domain, org_id
                            from domains
                           where verified_at is not null and domain = any (string_to_array({above}, ' '))
                       union all
                          select domain, org_id
                            from domain_routes
                           where verified_at is not null and domain = any (string_to_array({above}, ' '))
                      ) as proved
                order by length(proved.domain) desc
                limit 1
           )"""


def is_open(owner: LiteralString, organization: LiteralString) -> LiteralString:
    """A condition on a row of `proxy_hosts`: requests come through. A proof counts more than a platform owner's word, which stands where
    nobody has a proof. `owner` is what `nearest_owner` has found, or null.
    """
    return f"coalesce({owner} = {organization}, proxy_hosts.approved_at is not null)"


# The domains that a stored host lies in.
_ABOVE: Final = """(
               select string_agg(array_to_string(parts.labels[place:], '.'), ' ')
                 from (select string_to_array(proxy_hosts.host, '.') as labels) as parts
                cross join lateral generate_series(1, cardinality(parts.labels) - 1) as place
           )"""

_PROXY_FIND: Final[LiteralString] = f"""
    select {PROXY_SETTINGS.names}, held.hosts, held.approved_hosts, held.closed_hosts
      from services
      left join proxies on proxies.service_id = services.id
     cross join lateral (
               select coalesce(array_agg(proxy_hosts.host order by proxy_hosts.host), '{{}}') as hosts,
                      coalesce(
                          array_agg(proxy_hosts.host order by proxy_hosts.host) filter (where proxy_hosts.approved_at is not null),
                          '{{}}'
                      ) as approved_hosts,
                      coalesce(
                          array_agg(proxy_hosts.host order by proxy_hosts.host)
                              filter (where not {is_open(nearest_owner(_ABOVE), "services.org_id")}),
                          '{{}}'
                      ) as closed_hosts
                 from proxy_hosts
                where proxy_hosts.service_id = services.id
           ) as held
     where services.org_id = %(organization)s and services.slug = %(slug)s
"""

_RIGHTS: Final = """
    select array(select slug from service_roles where service_id = %(service)s) as roles,
           array(select key from permissions where service_id = %(service)s) as permissions
"""

_PROVED: Final[LiteralString] = f"""
    select asked.host
      from unnest(%(hosts)s::text[], %(above)s::text[]) as asked (host, above)
     where {nearest_owner("asked.above")} = %(organization)s
"""

# Of two transactions that claim one host, the second waits for the first's row.
_HOLDER: Final = "(select org_id from services where services.id = proxy_hosts.service_id)"

_CLAIM: Final[LiteralString] = f"""
    with mine as (
             select org_id from services where id = %(service)s
         ),
         owner as (
             select {nearest_owner("%(above)s::text")} as org_id
         ),
         claimed as (
             insert into proxy_hosts (host, service_id, approved_at)
             select %(host)s, %(service)s, %(approved_at)s
                 on conflict (host) do update
                set service_id = excluded.service_id, approved_at = excluded.approved_at
              where proxy_hosts.service_id <> excluded.service_id
                and (
                        {_HOLDER} is null
                     or {_HOLDER} <> (select org_id from mine) and not {is_open("(select org_id from owner)", _HOLDER)}
                    )
          returning host
         )
  select exists (select from claimed)
      or exists (select from proxy_hosts where host = %(host)s and service_id = %(service)s) as yes
"""

_RELEASE: Final = "delete from proxy_hosts where service_id = %(service)s and host <> all (%(but)s::text[])"

_PROXY_SAVE: Final[LiteralString] = f"""
    insert into proxies ({PROXY_SETTINGS.into("service_id", "updated_at")})
    values ({PROXY_SETTINGS.inserted("service_id", "updated_at")})
        on conflict (service_id) do update
       set {PROXY_SETTINGS.replaced()}, updated_at = excluded.updated_at
"""


# A row of `service_claims` as JSON, for statements that read all claims of a service at once.
CLAIM: Final = """
                   json_build_object(
                       'name', service_claims.name, 'source', service_claims.source, 'argument', service_claims.argument,
                       'into', service_claims.told_in
                   )"""


def service_claim(row: Mapping[str, Any]) -> ServiceClaim:
    """Reads `CLAIM`."""
    return ServiceClaim(row["name"], ClaimSource(row["source"]), row["argument"], tuple(map(ClaimPlace, row["into"])))


class _Claim(Frozen, kw_only=True):
    """For a service without claims, the list has one row of nulls."""

    service_id: UUID
    id: UUID | None
    created_at: datetime | None
    claim: Mapping[str, Any]
    person_writes: bool | None = None

    def configured(self) -> ConfiguredClaim | None:
        if self.id is None or self.created_at is None:
            return None
        return ConfiguredClaim(
            ServiceClaimId(self.id), ServiceId(self.service_id), service_claim(self.claim), self.created_at, self.person_writes
        )


class ServiceClaimRows(OnStatements):
    """Implements `ports.services.services.ServiceClaimStore`.

    The column `told_in` has the values of `into`, which is a word of SQL.
    """

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ConfiguredClaim] | None:
        rows = await self._statements.ask(_Claim, _SERVICE_CLAIM_LIST, {"organization": organization, "slug": storable_text(service_slug)})
        return [claim for row in rows if (claim := row.configured()) is not None] if rows else None

    async def find(self, service: ServiceId, claim: ServiceClaimId) -> ConfiguredClaim | None:
        return first_made(await self._statements.ask(_Claim, _GET, {"service": service, "id": claim}), _Claim.configured)

    async def count(self, service: ServiceId) -> int:
        return only(await self._statements.ask(CountRow, _COUNT, {"service": service})).count

    async def add(self, claim: ConfiguredClaim) -> bool:
        return bool(await self._statements.ask(IdRow, _SERVICE_CLAIM_ADD, _columns(claim)))

    async def save(self, claim: ConfiguredClaim) -> bool:
        return bool(await self._statements.ask(IdRow, _SERVICE_CLAIM_SAVE, _columns(claim)))

    async def is_made_of(self, organization: OrganizationId, field: str) -> bool:
        return only(await self._statements.ask(AnswerRow, _IS_MADE_OF, {"organization": organization, "field": storable_text(field)})).yes

    async def delete(self, service: ServiceId, claim: ServiceClaimId) -> ConfiguredClaim | None:
        return first_made(await self._statements.ask(_Claim, _SERVICE_CLAIM_DELETE, {"service": service, "id": claim}), _Claim.configured)


def _columns(configured: ConfiguredClaim) -> Mapping[str, Any]:
    claim = configured.claim
    return {
        "id": configured.id,
        "service": configured.service,
        "name": claim.name,
        "source": claim.source.value,
        "argument": None if claim.argument is None else Jsonb(storable(claim.argument)),
        "told_in": [place.value for place in claim.into],
        "created_at": configured.created_at,
    }


_COLUMNS: Final[LiteralString] = f"""
           service_claims.service_id, service_claims.id, service_claims.created_at, {CLAIM} as claim"""

_OF_FIELD: Final[LiteralString] = """
           (
               select 'person' = any (fields.written_by)
                 from profile_fields as fields
                where fields.key = service_claims.argument #>> '{}'
                  and case service_claims.source
                          when 'person_field' then fields.org_id is null
                          when 'organization_field' then fields.org_id = services.org_id
                          else false
                      end
           ) as person_writes"""

_SERVICE_CLAIM_LIST: Final[LiteralString] = f"""
    select services.id as service_id, service_claims.id, service_claims.created_at, {CLAIM} as claim, {_OF_FIELD}
      from services
      left join service_claims on service_claims.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by service_claims.name, service_claims.id
"""

_GET: Final[LiteralString] = f"""
    select {_COLUMNS}, {_OF_FIELD}
      from service_claims
      join services on services.id = service_claims.service_id
     where service_claims.service_id = %(service)s and service_claims.id = %(id)s
"""

_COUNT: Final = "select count(*) as count from service_claims where service_id = %(service)s"

_SERVICE_CLAIM_ADD: Final = """
    insert into service_claims (id, service_id, name, source, argument, told_in, created_at)
    values (%(id)s, %(service)s, %(name)s, %(source)s, %(argument)s, %(told_in)s, %(created_at)s)
        on conflict (service_id, name) do nothing
 returning id
"""

# The caller holds the service, so no other claim takes the name meanwhile.
_SERVICE_CLAIM_SAVE: Final = """
    update service_claims
       set name = %(name)s, source = %(source)s, argument = %(argument)s, told_in = %(told_in)s
     where id = %(id)s and service_id = %(service)s
       and not exists (
               select from service_claims as others where others.service_id = %(service)s and others.name = %(name)s and others.id <> %(id)s
           )
 returning id
"""

_IS_MADE_OF: Final = """
    select exists (
               select
                 from service_claims
                 join services on services.id = service_claims.service_id
                where services.org_id = %(organization)s and service_claims.source = 'organization_field'
                  and service_claims.argument #>> '{}' = %(field)s
           ) as yes
"""

_SERVICE_CLAIM_DELETE: Final[LiteralString] = (
    f"delete from service_claims where id = %(id)s and service_id = %(service)s returning {_COLUMNS}"
)


AT_ONCE: Final = 2


class PostgresServiceAnalytics:
    """Implements `ports.services.services.ServiceAnalyticsLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # Counting many sign-ins takes time. A service that asks often waits for its own earlier questions and leaves connections for
        # others.
        self._limiter = trio.CapacityLimiter(AT_ONCE)

    async def find(self, service: ServiceId, since: datetime) -> ServiceAnalytics | None:
        async with self._limiter:
            rows = await ask(self._pool, ServiceAnalytics, COUNT_SERVICE_USE, {"service": service, "since": since})
        return first(rows)


# `services` and `plans` keep the counts of users and subscriptions. The count of sign-ins comes from an index alone.
COUNT_SERVICE_USE: Final = """
    select services.user_count::bigint as total_users, of_plans.total_subscriptions, of_plans.active_subscriptions,
           of_logins.total_logins, of_logins.unique_users
      from services
     cross join lateral (
                select coalesce(sum(active_count + past_due_count + cancelled_count + expired_count), 0)::bigint as total_subscriptions,
                       coalesce(sum(active_count), 0)::bigint as active_subscriptions
                  from plans
                 where plans.service_id = services.id
           ) as of_plans
     cross join (
                select coalesce(sum(by_user.logins), 0)::bigint as total_logins, count(*) as unique_users
                  from (
                           select count(*) as logins
                             from login_events
                            where login_events.service_id = %(service)s and login_events.success and login_events.created_at > %(since)s
                            group by login_events.user_id
                       ) as by_user
           ) as of_logins
     where services.id = %(service)s
"""
