"""Reads an organization out of PostgreSQL, all of it at one moment, a few hundred rows at a time."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, LiteralString

import msgspec

from adapters.postgres.driver.pool import Pool
from adapters.postgres.failures import translated
from adapters.postgres.moving import people
from adapters.postgres.moving.what_moves import MIGRATIONS, LogDigest, MovedTable, moved_tables
from adapters.postgres.record.audit import CONTENT, LINKS, StoredLinkRow, stored_link
from adapters.postgres.statements import Transaction, only
from core.domain.identifiers import OrganizationId
from core.domain.platform.moving import AuditProof
from core.domain.record.audit import ChainCheck
from core.frozen import Frozen
from ports.crypto import KeyRing

_AT_ONCE: Final = 500
_LINKS_AT_ONCE: Final = 4000
_ENTRIES: Final = "audit_entries"
# The same moment for all parts, as a dump has it. It writes nothing but a list of people that goes with it.
_BEGIN: Final = b"BEGIN ISOLATION LEVEL REPEATABLE READ"


class _Text(Frozen):
    row: str


class LeavingDescription(Frozen):
    slug: str
    name: str
    status: str
    tier: str
    schema: int
    migrations: str


class LeavingOrganization:
    """One organization in one transaction."""

    def __init__(self, transaction: Transaction, organization: OrganizationId, keyring: KeyRing, tables: Sequence[MovedTable]) -> None:
        self._transaction = transaction
        self._organization = organization
        self._keyring = keyring
        self.tables = tables
        self.people = 0

    async def described(self) -> LeavingDescription:
        return only(await self._transaction.ask(LeavingDescription, _DESCRIBED, {"organization": self._organization}))

    async def rows_of_people(self) -> AsyncIterator[Sequence[bytes]]:
        async for rows in self._fetched(people.ROWS):
            self.people += len(rows)
            yield rows

    async def rows_of(self, table: MovedTable) -> AsyncIterator[Sequence[bytes]]:
        """Raises `CannotOpen` when the ring does not open a sealed value."""
        opened = _opener(table, self._keyring)
        async for rows in self._fetched(_select(table)):
            yield rows if opened is None else [opened(row) for row in rows]

    async def audit(self, key: bytes) -> AuditProof:
        """Walks along the chain, and takes the digest of all entries on the way."""
        check, log, faults, since = ChainCheck(key, self._organization), LogDigest(), 0, 0
        while True:
            parameters = {"chain": self._organization, "sequence": since, "most": _LINKS_AT_ONCE}
            links = [stored_link(self._organization, row) for row in await self._transaction.ask(StoredLinkRow, LINKS, parameters)]
            if not links:
                break
            for link in links:
                faults += len(check.take(link))
                if link.content is not None and link.belongs:
                    log.take(link.content.encode())
            since = links[-1].sequence + 1
        faults += len(check.end())
        # Entries that have no place yet follow in the order in which the linker will take them.
        async for contents in self._fetched(_WAITING):
            for content in contents:
                log.take(content)
        return AuditProof(log.entries, str(check.head), faults, log.digest)

    async def _fetched(self, select: str) -> AsyncIterator[Sequence[bytes]]:
        inlined = select.replace("%(organization)s", f"'{self._organization}'")
        await self._transaction.tell(f"declare leaving no scroll cursor for {inlined}")
        while True:
            rows = await self._transaction.ask_in_order(_Text, _FETCH)
            if rows:
                yield [one.row.encode() for one in rows]
            if len(rows) < _AT_ONCE:
                break
        await self._transaction.tell("close leaving")


@asynccontextmanager
async def leaving(pool: Pool, keyring: KeyRing, organization: OrganizationId) -> AsyncIterator[LeavingOrganization]:
    with translated():
        async with pool.connection() as connection, connection.pipelined_transaction(_BEGIN) as pipelined:
            transaction = Transaction(connection, pipelined)
            await transaction.tell(_WITHOUT_LIMITS)
            await transaction.tell(people.LEAVING.replace("%(organization)s", f"'{organization}'"))
            await transaction.tell("alter table leaving_people add primary key (id)")
            await transaction.tell("analyze leaving_people")
            yield LeavingOrganization(transaction, organization, keyring, await moved_tables(transaction))


def _select(table: MovedTable) -> str:
    """The statement that reads the rows of a table, as JSON."""
    conditions = [table.declared.rows]
    if table.owner is not None:
        conditions.append(f"row.{table.owner} = %(organization)s::uuid")
    if table.service is not None:
        services = "(select id from all_services where org_id = %(organization)s::uuid and deleted_at is null)"
        conditions.append(f"(row.{table.service} is null or row.{table.service} in {services})")
    for reference in table.people:
        if not reference.may_be_gone:
            own = " where is_own" if table.declared.of_people else ""
            conditions.append(f"(row.{reference.column} is null or row.{reference.column} in (select id from leaving_people{own}))")
    columns = ", ".join(f"row.{column}" for column in table.columns)
    if table.name == _ENTRIES:
        return _ENTRIES_IN_ORDER.replace("{columns}", columns)
    return f"select row_to_json(moved)::text from (select {columns} from {table.name} as row where {' and '.join(conditions)}) as moved"


def _opener(table: MovedTable, keyring: KeyRing) -> Callable[[bytes], bytes] | None:
    """Opens the sealed values of a row, which is sealed as a whole with the file."""
    if not table.sealed:
        return None

    def opened(text: bytes) -> bytes:
        row = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        for column, key in table.sealed.items():
            sealed = msgspec.json.decode(row[column])
            if sealed is not None:
                named = msgspec.json.decode(row[key])
                plain = keyring.open(bytes.fromhex(sealed.removeprefix("\\x")), f"{table.name}.{column}:{named}")
                row[column] = msgspec.Raw(msgspec.json.encode(f"\\x{plain.hex()}"))
        return msgspec.json.encode(row)

    return opened


_WITHOUT_LIMITS: Final = """
    select set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true),
           set_config('bytea_output', 'hex', true), set_config('timezone', 'UTC', true)
"""
_FETCH: Final = f"fetch {_AT_ONCE} from leaving"
_DESCRIBED: Final = f"""
    select organizations.slug, organizations.name, organizations.status, tiers.name as tier,
           (select max(number) from schema_migrations) as schema, {MIGRATIONS} as migrations
      from organizations
      join tiers on tiers.id = organizations.tier_id
     where organizations.id = %(organization)s
"""
_ENTRIES_IN_ORDER: Final = """
    select row_to_json(moved)::text
      from (
               select {columns}
                 from (
                          select entry_id, sequence from audit_links where chain_id = %(organization)s::uuid
                           union all
                          select entry_id, null from audit_pending where chain_id = %(organization)s::uuid
                      ) as places
                 join audit_entries as row on row.id = places.entry_id and row.organization_id = %(organization)s::uuid
                order by places.sequence nulls last, row.id
           ) as moved
"""
_WAITING: Final[LiteralString] = f"""
    select {CONTENT} as row
      from audit_pending
      join audit_entries as entries on entries.id = audit_pending.entry_id
     where audit_pending.chain_id = %(organization)s::uuid and entries.organization_id = %(organization)s::uuid
     order by entries.id
"""
