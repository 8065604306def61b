"""Domains of organizations and their routes in PostgreSQL, with their verification."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Generic, LiteralString, Protocol, TypeVar
from uuid import UUID

from adapters.postgres.locks import DOMAINS, NAMESPACE
from adapters.postgres.statements import Statements, Transaction, first, first_made, only
from adapters.postgres.tenancy.members import owners
from core.domain.identifiers import DomainId, OrganizationId, UpstreamProviderId
from core.domain.identity.realms import LoginPolicy
from core.domain.identity.upstream.providers import Provider
from core.domain.tenancy.domains import NO_PROVIDER, Domain, DomainRoute, JoinPolicy, NamedProvider
from core.frozen import Frozen
from ports.tenancy.organizations import ExistingRoutes, HeldRoute, Verified
from ports.tenancy.receivers import Owner

Proved = TypeVar("Proved", bound=Domain)
_Proved_co = TypeVar("_Proved_co", bound=Domain, covariant=True)


class DomainRow(Frozen):
    """The columns of `DOMAIN`. A table with further columns extends this class."""

    id: UUID
    org_id: UUID
    domain: str
    token: str
    verified_at: datetime | None
    checked_at: datetime | None
    misses: int
    created_at: datetime

    def proof(self) -> Mapping[str, Any]:
        return {
            "id": DomainId(self.id),
            "organization": OrganizationId(self.org_id),
            "name": self.domain,
            "token": self.token,
            "verified_at": self.verified_at,
            "checked_at": self.checked_at,
            "misses": self.misses,
            "created_at": self.created_at,
        }


DOMAIN: Final = "id, org_id, domain, token, verified_at, checked_at, misses, created_at"


class _Row(Protocol[_Proved_co]):
    def made(self) -> _Proved_co: ...


class ProofTable(Generic[Proved]):
    """The statements about one table of verified domains, and the class of its rows. They are the same for each such table. Only one
    organization can have verified a domain, in whichever table.
    """

    def __init__(self, table: LiteralString, columns: LiteralString, row: type[_Row[Proved]]) -> None:
        self.row = row
        self.verify: LiteralString = _VERIFY.format(table=table)
        self.seen: LiteralString = _SEEN.format(table=table)
        self.missed: LiteralString = _MISSED.format(table=table, columns=columns)
        self.claim_due: LiteralString = _CLAIM_DUE.format(table=table, columns=columns)


class ProofRows(Generic[Proved]):
    """Implements `ports.tenancy.organizations.ProofStore`."""

    def __init__(self, statements: Statements | Transaction, table: ProofTable[Proved]) -> None:
        self._statements = statements
        self._table = table

    async def claim_due(self, at: datetime, until: datetime, limit: int) -> Sequence[Proved]:
        rows = await self._statements.ask(self._table.row, self._table.claim_due, {"at": at, "until": until, "limit": limit})
        return [row.made() for row in rows]

    async def verify(self, domain: Proved, at: datetime, next_check_at: datetime) -> Verified | None:
        await self._statements.tell(_LOCK, {"namespace": NAMESPACE, "lock": DOMAINS})
        parameters = {"id": domain.id, "domain": domain.name, "organization": domain.organization, "at": at, "next": next_check_at}
        return first(await self._statements.ask(Verified, self._table.verify, parameters))

    async def seen(self, domain: DomainId, at: datetime, next_check_at: datetime) -> None:
        await self._statements.tell(self._table.seen, {"id": domain, "at": at, "next": next_check_at})

    async def missed(self, domain: Proved, at: datetime, next_check_at: datetime, most: int) -> Proved | None:
        parameters = {"id": domain.id, "checked_at": domain.checked_at, "at": at, "next": next_check_at, "most": most}
        return first_made(await self._statements.ask(self._table.row, self._table.missed, parameters), lambda row: row.made())

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._statements, organization)


_LOCK: Final = "select pg_advisory_xact_lock(%(namespace)s, %(lock)s)"

OF_ANOTHER: Final[LiteralString] = "others.domain = %(domain)s and others.verified_at is not null and others.org_id <> %(organization)s"

# `before` holds the row and then reads whether the proof is new: the weekly check or another member may have verified the domain meanwhile.
_VERIFY: Final[LiteralString] = f"""
    with before as (
             select id, verified_at is null as is_new from {{table}} where id = %(id)s for no key update
         )
    update {{table}}
       set verified_at = coalesce(verified_at, %(at)s), checked_at = %(at)s, next_check_at = %(next)s, misses = 0, updated_at = %(at)s
      from before
     where {{table}}.id = before.id
       and not exists (select from domains as others where {OF_ANOTHER})
       and not exists (select from domain_routes as others where {OF_ANOTHER})
       and not exists (select from resource_servers as others where {OF_ANOTHER})
 returning before.is_new
"""

_SEEN: Final = """
    update {table}
       set checked_at = %(at)s, next_check_at = %(next)s, misses = 0, updated_at = %(at)s
     where id = %(id)s and verified_at is not null
"""

# When somebody else has seen or missed the proof since this check began, `checked_at` differs, and this check changes nothing.
_MISSED: Final = """
    update {table}
       set misses = misses + 1, checked_at = %(at)s, updated_at = %(at)s,
           verified_at = case when misses + 1 < %(most)s then verified_at end,
           next_check_at = case when misses + 1 < %(most)s then %(next)s::timestamptz end
     where id = %(id)s and verified_at is not null and checked_at is not distinct from %(checked_at)s
 returning {columns}
"""

_CLAIM_DUE: Final = """
    update {table}
       set next_check_at = %(until)s
     where id = any (array(
               select id
                 from {table}
                where next_check_at <= %(at)s
                order by next_check_at
                limit %(limit)s
                  for no key update skip locked
           ))
 returning {columns}
"""


class _Domain(DomainRow):
    def made(self) -> Domain:
        return Domain(**self.proof())


_PROOFS: Final = ProofTable("domains", DOMAIN, _Domain)


class DomainRows(ProofRows[Domain]):
    """Implements `ports.tenancy.organizations.DomainStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        super().__init__(statements, _PROOFS)

    async def find(self, organization: OrganizationId) -> Domain | None:
        return first_made(await self._statements.ask(_Domain, _GET, {"organization": organization}), _Domain.made)

    async def save(self, domain: Domain) -> None:
        await self._statements.tell(
            _SAVE,
            {
                "id": domain.id,
                "organization": domain.organization,
                "domain": domain.name,
                "token": domain.token,
                "created_at": domain.created_at,
            },
        )

    async def remove(self, organization: OrganizationId) -> Domain | None:
        return first_made(await self._statements.ask(_Domain, _REMOVE, {"organization": organization}), _Domain.made)


_GET: Final[LiteralString] = f"select {DOMAIN} from domains where org_id = %(organization)s"

_SAVE: Final = """
    insert into domains (id, org_id, domain, token, created_at, updated_at)
    values (%(id)s, %(organization)s, %(domain)s, %(token)s, %(created_at)s, %(created_at)s)
        on conflict (org_id) do update
       set id = excluded.id, domain = excluded.domain, token = excluded.token, verified_at = null, checked_at = null, next_check_at = null,
           misses = 0, created_at = excluded.created_at, updated_at = excluded.updated_at
"""

_REMOVE: Final[LiteralString] = f"delete from domains where org_id = %(organization)s returning {DOMAIN}"


class _Route(DomainRow):
    shared_provider: str | None
    own_provider: UUID | None
    login_policy: str
    join_policy: str
    updated_at: datetime

    def made(self) -> DomainRoute:
        return DomainRoute(
            **self.proof(),
            shared_provider=None if self.shared_provider is None else Provider(self.shared_provider),
            own_provider=None if self.own_provider is None else UpstreamProviderId(self.own_provider),
            login_policy=LoginPolicy(self.login_policy),
            join_policy=JoinPolicy(self.join_policy),
            updated_at=self.updated_at,
        )


class _Held(_Route):
    provider_is_known: bool


_COLUMNS: Final[LiteralString] = f"{DOMAIN}, shared_provider, own_provider, login_policy, join_policy, updated_at"
_DOMAIN_ROUTE_PROOFS: Final = ProofTable("domain_routes", _COLUMNS, _Route)


class DomainRouteRows(ProofRows[DomainRoute]):
    """Implements `ports.tenancy.organizations.DomainRouteStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        super().__init__(statements, _DOMAIN_ROUTE_PROOFS)

    async def list(self, organization: OrganizationId) -> Sequence[DomainRoute]:
        return [row.made() for row in await self._statements.ask(_Route, _LIST, {"organization": organization})]

    async def find_route(self, organization: OrganizationId, route: DomainId) -> DomainRoute | None:
        return first_made(await self._statements.ask(_Route, _DOMAIN_ROUTE_GET, {"organization": organization, "id": route}), _Route.made)

    async def standing(self, organization: OrganizationId, domain: str) -> ExistingRoutes:
        return only(await self._statements.ask(ExistingRoutes, _STANDING, {"organization": organization, "domain": domain}))

    async def add(self, route: DomainRoute, most: int, *, provider_is_known: bool) -> DomainRoute | None:
        parameters = {
            **_led(route),
            "most": most,
            "provider_is_known": provider_is_known,
            "organization": route.organization,
            "domain": route.name,
            "token": route.token,
            "created_at": route.created_at,
        }
        return first_made(await self._statements.ask(_Route, _ADD, parameters), _Route.made)

    async def find(self, organization: OrganizationId, route: DomainId, provider: NamedProvider = NO_PROVIDER) -> HeldRoute | None:
        shared, own = provider
        parameters = {
            "organization": organization,
            "id": route,
            "shared_provider": None if shared is None else shared.value,
            "own_provider": own,
        }
        return first_made(await self._statements.ask(_Held, _FIND, parameters), lambda row: HeldRoute(row.made(), row.provider_is_known))

    async def save(self, route: DomainRoute) -> None:
        await self._statements.tell(_DOMAIN_ROUTE_SAVE, _led(route))

    async def remove(self, route: DomainId) -> None:
        await self._statements.tell(_DOMAIN_ROUTE_REMOVE, {"id": route})


def _led(route: DomainRoute) -> Mapping[str, Any]:
    """The id, and every column that may change."""
    return {
        "id": route.id,
        "shared_provider": None if route.shared_provider is None else route.shared_provider.value,
        "own_provider": route.own_provider,
        "login_policy": route.login_policy.value,
        "join_policy": route.join_policy.value,
        "updated_at": route.updated_at,
    }


_STANDING: Final = """
    select count(*) as count, coalesce(bool_or(domain = %(domain)s), false) as has_domain from domain_routes where org_id = %(organization)s
"""

# A provider that was never tested successfully may not be named, unless it was active from its beginning. `for key share` keeps other
# transactions from deleting the provider until this route refers to it.
_KNOWS_PROVIDER: Final = """
           (
               %(own_provider)s::uuid is null
            or exists (
                   select
                     from upstream_providers
                    where upstream_providers.id = %(own_provider)s::uuid and upstream_providers.org_id = %(organization)s
                      and (
                              upstream_providers.state = 'active' or upstream_providers.activated_at is not null
                           or upstream_providers.tested_at is not null
                          )
                      for key share
               )
           )
       and (
               %(shared_provider)s::text is null
            or exists (
                   select
                     from oauth_credentials
                    where oauth_credentials.org_id = %(organization)s and oauth_credentials.provider = %(shared_provider)s
               )
           )"""

_ADD: Final[LiteralString] = f"""
    insert into domain_routes (id, org_id, domain, token, shared_provider, own_provider, login_policy, join_policy, created_at, updated_at)
    select %(id)s, %(organization)s, %(domain)s,
           coalesce((select token from domains where org_id = %(organization)s and domain = %(domain)s), %(token)s),
           %(shared_provider)s, %(own_provider)s, %(login_policy)s, %(join_policy)s, %(created_at)s, %(updated_at)s
     where (select count(*) from domain_routes where org_id = %(organization)s) < %(most)s
       and (%(provider_is_known)s or ({_KNOWS_PROVIDER}))
        on conflict (org_id, domain) do nothing
 returning {_COLUMNS}
"""

_DOMAIN_ROUTE_SAVE: Final = """
    update domain_routes
       set shared_provider = %(shared_provider)s, own_provider = %(own_provider)s, login_policy = %(login_policy)s,
           join_policy = %(join_policy)s, updated_at = %(updated_at)s
     where id = %(id)s
"""

_DOMAIN_ROUTE_REMOVE: Final = "delete from domain_routes where id = %(id)s"

_LIST: Final[LiteralString] = f"select {_COLUMNS} from domain_routes where org_id = %(organization)s order by id"

_FIND: Final[LiteralString] = f"""
    select {_COLUMNS}, {_KNOWS_PROVIDER} as provider_is_known from domain_routes where org_id = %(organization)s and id = %(id)s
"""

_DOMAIN_ROUTE_GET: Final[LiteralString] = f"select {_COLUMNS} from domain_routes where org_id = %(organization)s and id = %(id)s"
