"""The domains of organizations in PostgreSQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.driver.pool import Pool
from adapters.postgres.locks import DOMAINS, NAMESPACE
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import ask
from adapters.postgres.tenancy.owners import owners
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import DomainId, OrganizationId
from core.domain.tenancy.domains import Domain
from ports.tenancy.webhooks import Owner


@dataclass(frozen=True, slots=True)
class _Domain:
    id: UUID
    org_id: UUID
    domain: str
    token: str
    verified_at: datetime | None
    checked_at: datetime | None
    misses: int
    created_at: datetime

    def made(self) -> Domain:
        return Domain(
            id=DomainId(self.id),
            organization=OrganizationId(self.org_id),
            name=self.domain,
            token=self.token,
            verified_at=self.verified_at,
            checked_at=self.checked_at,
            misses=self.misses,
            created_at=self.created_at,
        )


class DomainRows:
    """Implements `ports.tenancy.domains.DomainStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def find(self, organization: OrganizationId) -> Domain | None:
        rows = await self._transaction.ask(_Domain, _GET, {"organization": organization})
        return rows[0].made() if rows else None

    async def save(self, domain: Domain) -> None:
        await self._transaction.tell(
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
        rows = await self._transaction.ask(_Domain, _REMOVE, {"organization": organization})
        return rows[0].made() if rows else None

    async def verify(self, domain: Domain, at: datetime, next_check_at: datetime) -> bool:
        await self._transaction.tell(_LOCK, {"namespace": NAMESPACE, "lock": DOMAINS})
        parameters = {"id": domain.id, "domain": domain.name, "at": at, "next": next_check_at}
        return bool(await self._transaction.ask(IdRow, _VERIFY, parameters))

    async def seen(self, domain: DomainId, at: datetime, next_check_at: datetime) -> None:
        await self._transaction.tell(_SEEN, {"id": domain, "at": at, "next": next_check_at})

    async def missed(self, domain: DomainId, at: datetime, next_check_at: datetime, most: int) -> Domain | None:
        rows = await self._transaction.ask(_Domain, _MISSED, {"id": domain, "at": at, "next": next_check_at, "most": most})
        return rows[0].made() if rows else None

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._transaction, organization)


class PostgresDomains:
    """Implements `ports.tenancy.domains.DomainLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, organization: OrganizationId) -> Domain | None:
        rows = await ask(self._pool, _Domain, _GET, {"organization": organization})
        return rows[0].made() if rows else None

    async def claim_due(self, at: datetime, until: datetime, limit: int) -> Sequence[Domain]:
        return [row.made() for row in await ask(self._pool, _Domain, _CLAIM_DUE, {"at": at, "until": until, "limit": limit})]


_COLUMNS: Final = "id, org_id, domain, token, verified_at, checked_at, misses, created_at"

_GET: Final[LiteralString] = f"select {_COLUMNS} from domains where org_id = %(organization)s"

_SAVE: Final = """
    insert into domains (id, org_id, domain, token, created_at, updated_at)
    values (%(id)s, %(organization)s, %(domain)s, %(token)s, %(created_at)s, %(created_at)s)
        on conflict (org_id) do update
       set id = excluded.id, domain = excluded.domain, token = excluded.token, verified_at = null, checked_at = null, next_check_at = null,
           misses = 0, created_at = excluded.created_at, updated_at = excluded.updated_at
"""

_REMOVE: Final[LiteralString] = f"delete from domains where org_id = %(organization)s returning {_COLUMNS}"

_LOCK: Final = "select pg_advisory_xact_lock(%(namespace)s, %(lock)s)"

_VERIFY: Final = """
    update domains
       set verified_at = coalesce(verified_at, %(at)s), checked_at = %(at)s, next_check_at = %(next)s, misses = 0, updated_at = %(at)s
     where id = %(id)s
       and not exists (
               select from domains as others
                where others.domain = %(domain)s and others.verified_at is not null and others.id <> %(id)s
           )
 returning id
"""

_SEEN: Final = """
    update domains
       set checked_at = %(at)s, next_check_at = %(next)s, misses = 0, updated_at = %(at)s
     where id = %(id)s and verified_at is not null
"""

_MISSED: Final[LiteralString] = f"""
    update domains
       set misses = misses + 1, checked_at = %(at)s, updated_at = %(at)s,
           verified_at = case when misses + 1 < %(most)s then verified_at end,
           next_check_at = case when misses + 1 < %(most)s then %(next)s::timestamptz end
     where id = %(id)s and verified_at is not null
 returning {_COLUMNS}
"""

_CLAIM_DUE: Final = """
    with due as materialized (
             select id
               from domains
              where next_check_at <= %(at)s
              order by next_check_at
              limit %(limit)s
                for no key update skip locked
         )
  update domains
     set next_check_at = %(until)s
    from due
   where domains.id = due.id
returning domains.id, org_id, domain, token, verified_at, checked_at, misses, created_at
"""
