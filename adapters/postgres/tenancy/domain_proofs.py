"""The proofs of domains in PostgreSQL, the same for each table of proved domains. Only one organization can have verified a domain, in
whichever table.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Generic, LiteralString, Protocol, TypeVar
from uuid import UUID

from adapters.postgres.locks import DOMAINS, NAMESPACE
from adapters.postgres.statements import Statements, first, first_made
from adapters.postgres.tenancy.owners import owners
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import DomainId, OrganizationId
from core.domain.tenancy.domains import Domain
from core.frozen import Frozen
from ports.tenancy.organizations import Verified
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
    """The statements about one table, and the class of their rows."""

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
