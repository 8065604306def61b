"""Resource servers in PostgreSQL."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

import msgspec
from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns, IdRow, storable, storable_text
from adapters.postgres.locks import DOMAINS, NAMESPACE
from adapters.postgres.statements import Statements, Transaction, first, only
from adapters.postgres.tenancy.domains import DOMAIN, OF_ANOTHER, DomainRow, ProofRows, ProofTable
from core.domain.identifiers import OrganizationId, ResourceServerId, ServiceId
from core.domain.services.resource_servers import (
    SETTLES_AFTER,
    NamedServices,
    ResourceApproval,
    ResourceHost,
    ResourceScope,
    ResourceServer,
    ResourceServerSettings,
)
from core.frozen import Frozen, names_of, replace, values_of
from ports.services.services import ExistingResourceServers, Given
from ports.tenancy.organizations import Verified

_SELDOM: Final = ("acr_values", "max_age")


def _scopes_read(kept: Any) -> tuple[ResourceScope, ...]:
    return msgspec.convert(kept, tuple[ResourceScope, ...])


def _scopes_written(scopes: Sequence[ResourceScope]) -> Jsonb:
    """What most scopes do not say is left out."""
    return Jsonb([storable({name: said for name, said in values_of(one).items() if said or name not in _SELDOM}) for one in scopes])


RESOURCE_SERVER: Final = Columns(
    ResourceServer,
    "resource_servers",
    named={"organization": "org_id", "host": "domain", "service": "service_id"},
    apart=("service_slug", "admitted", "exchanges"),
    texts=("name",),
    turned={"scopes": (_scopes_read, _scopes_written)},
)


class _Host(DomainRow):
    identifier: str

    def made(self) -> ResourceHost:
        return ResourceHost(**self.proof(), identifier=self.identifier)


_PROOFS: Final = ProofTable("resource_servers", f"{DOMAIN}, identifier", _Host)


class _Service(Frozen):
    slug: str
    id: ServiceId
    permissions: Sequence[str]


def _row(*, admitted: Sequence[str], exchanges: Sequence[str], **columns: Any) -> ResourceServer:
    return RESOURCE_SERVER.row(admitted=tuple(admitted), exchanges=tuple(exchanges), **columns)


def _approval(*, organization_slug: str, organization_name: str, proved_elsewhere: bool, **columns: Any) -> ResourceApproval:
    return ResourceApproval(_row(**columns), organization_slug, organization_name, proved_elsewhere)


class _Given(Frozen):
    is_new: bool
    settles_at: datetime | None


class ResourceServerRows(ProofRows[ResourceHost]):
    """Implements `ports.services.services.ResourceServerStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        super().__init__(statements, _PROOFS)

    async def list(self, organization: OrganizationId) -> Sequence[ResourceServer]:
        return await self._statements.ask(_row, _LIST, {"organization": organization})

    async def find_own(self, organization: OrganizationId, server: ResourceServerId) -> ResourceServer | None:
        return first(await self._statements.ask(_row, _GET, {"organization": organization, "id": server}))

    async def existing(self, organization: OrganizationId, identifier: str, host: str) -> ExistingResourceServers:
        parameters = {"organization": organization, "identifier": identifier, "host": host}
        return only(await self._statements.ask(ExistingResourceServers, _EXISTING, parameters))

    async def services(self, organization: OrganizationId, slugs: Collection[str], stands: str | None) -> NamedServices:
        wanted = [storable_text(slug) for slug in {*slugs, *([] if stands is None else [stands])}]
        if not wanted:
            return NamedServices({})
        rows = await self._statements.ask(_Service, _SERVICES, {"organization": organization, "slugs": wanted})
        permissions = next((row.permissions for row in rows if row.slug == stands), ())
        return NamedServices({row.slug: row.id for row in rows}, frozenset(permissions))

    async def add(self, server: ResourceServer) -> bool:
        if not await self._statements.ask(IdRow, _ADD, RESOURCE_SERVER.values(server)):
            return False
        await self._name(server)
        return True

    async def save(self, server: ResourceServer) -> None:
        await self._statements.tell(_SAVE, RESOURCE_SERVER.values(server))
        await self._name(server)

    async def _name(self, server: ResourceServer) -> None:
        for statement, slugs in ((_ADMIT, server.admitted), (_LET_EXCHANGE, server.exchanges)):
            parameters = {"id": server.id, "organization": server.organization, "slugs": list(slugs)}
            await self._statements.tell(statement, parameters)

    async def remove(self, server: ResourceServerId) -> None:
        await self._statements.tell("delete from resource_servers where id = %(id)s", {"id": server})

    async def claim(self, server: ResourceServer) -> Sequence[ResourceServer]:
        await self._lock()
        return await self._statements.ask(_row, _SUPERSEDE, {"host": server.host, "organization": server.organization})

    async def verify(self, domain: ResourceHost, at: datetime, next_check_at: datetime) -> Verified | None:
        raise NotImplementedError("A resource server is proved by `prove`")

    async def prove(self, server: ResourceServer, at: datetime, next_check_at: datetime) -> Given | None:
        return await self._give(_PROVE, server, {"at": at, "next": next_check_at, "is_proved": True})

    async def ask_approval(self, server: ResourceServerId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _ASK_APPROVAL, {"id": server, "at": at}))

    async def approvals(self, most: int) -> Sequence[ResourceApproval]:
        return await self._statements.ask(_approval, _APPROVALS, {"most": most})

    async def find(self, server: ResourceServerId) -> ResourceServer | None:
        await self._lock()
        return first(await self._statements.ask(_row, _FIND, {"id": server}))

    async def approve(self, server: ResourceServer, at: datetime) -> Given | None:
        return await self._give(_APPROVE, server, {"at": at, "is_proved": False})

    async def withdraw_approval(self, server: ResourceServerId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _WITHDRAW, {"id": server, "at": at}))

    async def _lock(self) -> None:
        await self._statements.tell(_LOCK, {"namespace": NAMESPACE, "lock": DOMAINS})

    async def _give(self, statement: LiteralString, server: ResourceServer, more: Mapping[str, Any]) -> Given | None:
        parameters = {
            "id": server.id,
            "organization": server.organization,
            "identifier": server.identifier,
            "domain": server.host,
            "key": server.key,
            "settles_after": SETTLES_AFTER,
            **more,
        }
        given = first(await self._statements.ask(_Given, statement, parameters))
        if given is None:
            return None
        at = more["at"]
        given_by = {"verified_at": server.verified_at or at, "checked_at": at, "misses": 0} if more["is_proved"] else {"approved_at": at}
        after = {"approved_at": None, "approval_asked_at": None, "settles_at": given.settles_at, "updated_at": at, **given_by}
        return Given(replace(server, **after), given.is_new)


def named_services(table: LiteralString) -> LiteralString:
    """The slugs of the services that this table names for a row of `resource_servers`."""
    return f"""array(
               select named.slug
                 from {table}
                 join services as named on named.id = {table}.service_id
                where {table}.resource_id = resource_servers.id
                order by named.slug collate "C"
           )"""


_LOCK: Final = "select pg_advisory_xact_lock(%(namespace)s, %(lock)s)"

_COLUMNS: Final[LiteralString] = f"""
           {RESOURCE_SERVER.names},
           (
               select services.slug from services where services.id = resource_servers.service_id
           ) as service_slug,
           {named_services("resource_admissions")} as admitted,
           {named_services("resource_exchanges")} as exchanges"""

_LIST: Final[LiteralString] = f"select {_COLUMNS} from resource_servers where org_id = %(organization)s order by id"

_GET: Final[LiteralString] = f"select {_COLUMNS} from resource_servers where org_id = %(organization)s and id = %(id)s"

# Rows of an organization that is being deleted go later than the organization.
_OF_LIVING: Final[LiteralString] = """
      from resource_servers
      join organizations on organizations.id = resource_servers.org_id"""

_FIND: Final[LiteralString] = f"select {_COLUMNS} {_OF_LIVING} where resource_servers.id = %(id)s"

# One text proves all of the organization's claims on a host, whichever it is for.
_EXISTING: Final[LiteralString] = """
    select (select count(*) from resource_servers where org_id = %(organization)s) as count,
           exists (select from resource_servers where org_id = %(organization)s and identifier = %(identifier)s) as has_identifier,
           proof.token, proof.verified_at is not null as is_proved
      from (values (1)) as one
      left join lateral (
               select token, verified_at from domains where org_id = %(organization)s and domain = %(host)s
                union all
               select token, verified_at from domain_routes where org_id = %(organization)s and domain = %(host)s
                union all
               select token, verified_at from resource_servers where org_id = %(organization)s and domain = %(host)s
                order by verified_at nulls last
                limit 1
           ) as proof on true
"""

# Metadata clients stand for no API, and the rules about their documents let them in. `for key share` keeps a service until the resource
# server refers to it.
_SERVICES: Final = """
    select slug, id, array(select key from permissions where permissions.service_id = services.id) as permissions
      from services
     where org_id = %(organization)s and slug = any (%(slugs)s) and service_type <> 'metadata'
     order by id
       for key share
"""

_ADD: Final[LiteralString] = f"""
    insert into resource_servers ({RESOURCE_SERVER.into()})
    values ({RESOURCE_SERVER.inserted()})
        on conflict (org_id, identifier) do nothing
 returning id
"""

_SAVE: Final[LiteralString] = f"""
    update resource_servers
       set {RESOURCE_SERVER.sets((*names_of(ResourceServerSettings), "service", "updated_at"))}
     where id = %(id)s
"""


def _naming(table: LiteralString) -> LiteralString:
    return f"""
    with wanted as (
             select id from services where org_id = %(organization)s and slug = any (%(slugs)s)
         ),
         taken as (
             delete from {table} where resource_id = %(id)s and service_id not in (select id from wanted)
         )
  insert into {table} (id, resource_id, service_id)
  select gen_random_uuid(), %(id)s, id from wanted
      on conflict do nothing
"""


_ADMIT: Final[LiteralString] = _naming("resource_admissions")
_LET_EXCHANGE: Final[LiteralString] = _naming("resource_exchanges")

_SUPERSEDE: Final[LiteralString] = f"""
    update resource_servers
       set approved_at = null, approval_asked_at = null
     where domain = %(host)s and org_id <> %(organization)s and approved_at is not null
 returning {_COLUMNS}
"""

# The identifier is given once. Another organization gets it only by a proof, and only if nobody had it by a proof. Only then the row
# changes hands, and what the organization before has made must end first.
_GIVE: Final[LiteralString] = f"""
    with before as (
             select id, settles_at, verified_at is null and resource_servers.approved_at is null as is_new
               from resource_servers
              where id = %(id)s and org_id = %(organization)s {{condition}}
                and not exists (select from domains as others where {OF_ANOTHER})
                and not exists (select from domain_routes as others where {OF_ANOTHER})
                and not exists (select from resource_servers as others where {OF_ANOTHER})
                for no key update
         ),
         former as (
             select org_id from resource_identifiers where key = %(key)s
         ),
         given as (
             insert into resource_identifiers as held (key, org_id, is_proved, given_at)
             select %(key)s, %(organization)s, %(is_proved)s, %(at)s from before
                 on conflict (key) do update
                set org_id = excluded.org_id, is_proved = held.is_proved or excluded.is_proved,
                    given_at = case when held.org_id = excluded.org_id then held.given_at else excluded.given_at end
              where held.org_id = excluded.org_id or (excluded.is_proved and not held.is_proved)
          returning key
         )
    update resource_servers
       set {{changes}},
           settles_at = case
                            when exists (select from former where former.org_id <> %(organization)s)
                            then %(at)s::timestamptz + %(settles_after)s
                            else before.settles_at
                        end,
           approval_asked_at = null, updated_at = %(at)s
      from before, given
     where resource_servers.id = before.id
 returning before.is_new, resource_servers.settles_at
"""

_PROVE: Final[LiteralString] = _GIVE.format(
    condition="",
    changes=("verified_at = coalesce(verified_at, %(at)s), approved_at = null, checked_at = %(at)s, next_check_at = %(next)s, misses = 0"),
)

_APPROVE: Final[LiteralString] = _GIVE.format(
    condition="and verified_at is null and resource_servers.approved_at is null", changes="approved_at = %(at)s"
)

_WITHDRAW: Final = """
    update resource_servers set approved_at = null, updated_at = %(at)s where id = %(id)s and approved_at is not null returning id
"""

_ASK_APPROVAL: Final = """
    update resource_servers
       set approval_asked_at = %(at)s
     where id = %(id)s and approval_asked_at is null and verified_at is null and approved_at is null
 returning id
"""

_APPROVALS: Final[LiteralString] = f"""
    select organizations.slug as organization_slug, organizations.name as organization_name,
           (
                  exists (select from domains as others where {OF_ANOTHER})
               or exists (select from domain_routes as others where {OF_ANOTHER})
               or exists (select from resource_servers as others where {OF_ANOTHER})
           ) as proved_elsewhere,
           {_COLUMNS} {_OF_LIVING}
     where resource_servers.approved_at is not null
        or approval_asked_at is not null and verified_at is null and organizations.status = 'active'
     order by resource_servers.approved_at desc nulls first, approval_asked_at, resource_servers.id
     limit %(most)s
""".replace("%(domain)s", "resource_servers.domain").replace("%(organization)s", "resource_servers.org_id")
