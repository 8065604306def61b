"""Applications behind a proxy in PostgreSQL: what is set of each, and which hosts it has."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres.columns import Columns
from adapters.postgres.rows import AnswerRow
from adapters.postgres.statements import first, only
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, ServiceId
from core.domain.services.proxies import KeptProxy, ProxySettings, domains_above
from core.domain.services.rights import ServiceRights
from core.frozen import Frozen

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
        return first(await self._statements.ask(_kept, _FIND, {"organization": organization, "slug": storable_text(service_slug)}))

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
        await self._statements.tell(_SAVE, {**PROXY_SETTINGS.values(settings), "service_id": service, "updated_at": at})


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

_FIND: Final[LiteralString] = f"""
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

_SAVE: Final[LiteralString] = f"""
    insert into proxies ({PROXY_SETTINGS.into("service_id", "updated_at")})
    values ({PROXY_SETTINGS.inserted("service_id", "updated_at")})
        on conflict (service_id) do update
       set {PROXY_SETTINGS.replaced()}, updated_at = excluded.updated_at
"""
