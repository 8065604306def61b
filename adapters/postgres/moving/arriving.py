"""Takes an organization into PostgreSQL, in one transaction: everything arrives, or nothing does.

The rows of the file first go into temporary tables of the transaction, where PostgreSQL gives them their types. There each statement can
look at all of them: nothing refers to a row that the file does not have, nothing names another organization, and people find their
accounts.
Then one statement for each table writes the rows. So memory stays small, and a process that is killed leaves nothing behind.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import msgspec
import psycopg

from adapters.postgres.columns import CountRow, IdRow, array
from adapters.postgres.identity.addresses import BRINGS_PROOFS
from adapters.postgres.moving import people
from adapters.postgres.moving.arriving_columns import COLUMNS
from adapters.postgres.moving.arriving_rows import Receiver, require_fit
from adapters.postgres.moving.what_moves import MIGRATIONS, ORGANIZATIONS, USERS, LogDigest, MovedTable, decoders_of, moved_tables, read_row
from adapters.postgres.record.audit import ADD_LINKS, CONTENT
from adapters.postgres.statements import Transaction, only
from adapters.postgres.tables.declaring import IdMeaning
from adapters.postgres.tables.every import MOVED
from adapters.postgres.tenancy.branding import OwnTextRows
from core.domain.errors import BadRequest
from core.domain.identifiers import AuditEntryId, OrganizationId, TierId, UserId
from core.domain.mail import Email
from core.domain.platform.moving import ARRIVED, AuditProof, FileHead, MovedPeople, NamedPerson, TableReport, UnfitFile, is_bearable
from core.domain.record.audit import ChainHead, Unlinked, linked
from core.domain.tenancy.texts import digest_of
from core.frozen import Frozen
from ports.crypto import KeyRing
from ports.identity.accounts import EmailSyntax
from ports.texts import ShippedWords

Row = dict[str, msgspec.Raw]
_LINKED_AT_ONCE: Final = 500
# Its rows are read again one after the other.
_IN_ORDER: Final = "audit_entries"
# Relations are compared with them.
_OF_MEMBERS: Final = "memberships"
_PEOPLE_AT_ONCE: Final = 1000
_NIL: Final = "'00000000-0000-0000-0000-000000000000'::uuid"
_FIRST: Final = UUID(int=0)


if unchecked := MOVED.keys() ^ COLUMNS.keys():
    raise TypeError(f"Say in adapters/postgres/moving/arriving_columns.py what the columns may be of {', '.join(sorted(unchecked))}")


class ArrivalMeans(Frozen):
    keyring: KeyRing
    email_syntax: EmailSyntax
    issuer: str
    is_zone: Callable[[str], bool]
    shipped_words: ShippedWords


class ArrivalTerms(Frozen):
    """What the operator has decided."""

    slug: str
    tier: TierId
    trusted: bool
    same_relying_party: bool


class PersonIds(Frozen):
    old: UUID
    new: UUID
    is_known: bool


class _Here(Frozen):
    was_here: bool
    imported: datetime | None
    migrations: str


class _Faulty(Frozen):
    count: int
    first: int


class _Numbers(Frozen):
    new: int
    known: int
    renamed: int


class _Entry(Frozen):
    place: int
    id: UUID
    arrived: str
    content: str


class ArrivingOrganization:
    """One file in one transaction. The methods are called in the order in which they stand here."""

    def __init__(
        self,
        transaction: Transaction,
        tables: Sequence[MovedTable],
        means: ArrivalMeans,
        head: FileHead,
        wanted: ArrivalTerms,
    ) -> None:
        self._transaction = transaction
        self._tables = {table.name: table for table in tables}
        self._keyring = means.keyring
        self._email_syntax = means.email_syntax
        self._is_zone = means.is_zone
        self._receiver = Receiver(means.issuer, means.email_syntax, means.shipped_words)
        self._decoders = {table.name: decoders_of(table) for table in tables}
        self._checked: Counter[str] = Counter()
        self._organization = head.organization
        self._migrations = head.migrations
        self._parameters: Mapping[str, Any] = {
            "organization": str(head.organization),
            "slug": wanted.slug,
            "tier": wanted.tier,
            "reason": ARRIVED,
            "trusted": wanted.trusted,
            "same_relying_party": wanted.same_relying_party,
        }
        self._wanted = wanted
        self._place = 0
        self._people_are_known = False
        self._rows: dict[str, int] = dict.fromkeys([USERS, *self._tables], 0)

    @property
    def tables(self) -> Sequence[str]:
        return tuple(self._rows)

    async def begin(self) -> None:
        """Makes the temporary tables that the file's rows go into. Raises `UnfitFile` when the organization has no id of its own, is or was
        here, or when the file has another schema than this database.
        """
        # An id of zeros is the platform's own in the audit log (`PLATFORM_CHAIN`): no organization has it.
        if self._organization == _FIRST:
            raise UnfitFile("The organization of the file has no id")
        (found,) = await self._transaction.ask(_Here, _HERE, self._given(_HERE))
        if found.migrations != self._migrations:
            raise UnfitFile(
                "The file has the columns of other migrations than this database: bring both installations to the same release, "
                "and export again"
            )
        if found.imported is not None:
            raise UnfitFile(f"This organization is here already: it was imported on {found.imported:%Y-%m-%d at %H:%M} UTC")
        if found.was_here:
            raise UnfitFile("This organization is here, or was, and its audit log still is: it cannot arrive a second time")
        await self._transaction.tell(people.ARRIVING)
        for table in self._tables.values():
            columns = ", ".join(table.columns)
            await self._transaction.tell(
                f"create temporary table arriving_{table.name} on commit drop as"
                f" select 0::bigint as place, {columns} from {table.name} with no data"
            )

    def ready(self, table: str, rows: Sequence[Row]) -> list[Row]:
        """Checks rows by themselves, and seals what was opened for the file. Needs no database, but some time. Raises `UnfitFile`."""
        known = self._tables.get(table)
        if known is None and table != USERS:
            raise UnfitFile(f"The file has a part {table[:60]!r}, and this Postern knows no such table of an organization")
        return [self._ready(table, known, row) for row in rows]

    def _ready(self, name: str, table: MovedTable | None, row: Row) -> Row:
        self._checked[name] += 1
        try:
            return self._person(row) if table is None else self._fit(table, row)
        except BadRequest as refusal:
            raise UnfitFile(f"Row {self._checked[name]} of {name} is not fit: {refusal.message}") from None

    async def take(self, table: str, rows: list[Row]) -> None:
        """Raises `UnfitFile` for rows of the wrong types."""
        if table == USERS and self._people_are_known:
            raise UnfitFile("The people of the file do not come first")
        if table != USERS:
            await self.know_people()
            if self._tables[table].declared.of_people:
                rows = await self._sealed_for_newcomers(self._tables[table], rows)
        for row in rows:
            self._place += 1
            row["place"] = msgspec.Raw(str(self._place).encode())
        self._rows[table] += len(rows)
        statement = f"insert into arriving_{table} select * from json_populate_recordset(null::arriving_{table}, %(rows)s::json)"
        await self._ask(table, statement, {"rows": msgspec.json.encode(rows).decode()})

    async def know_people(self) -> None:
        """Finds out who has an account here. Raises `UnfitFile` for an address that two people of the file have."""
        if self._people_are_known:
            return
        self._people_are_known = True
        for statement in (
            "create unique index on arriving_users (email_key)",
            "create unique index on arriving_users (id)",
            "analyze arriving_users",
            people.WHO_IS_WHO,
            "create unique index on arriving_people (old)",
            "create unique index on arriving_people (new)",
            "create index on arriving_people ((old::text))",
            "analyze arriving_people",
        ):
            await self._ask(USERS, statement, self._given(statement))

    async def unproved(self) -> Sequence[UserId]:
        """Accounts here whose address nobody has proved. What somebody has left there must go before they get a tie. Raises `UnfitFile`
        when an account is not that of the address any more.
        """
        (found,) = await self._ask(USERS, people.HOLD)
        if found.count:
            raise UnfitFile("Accounts of these people were deleted, or have another address now: run the import again")
        return [UserId(row.id) for row in await self._transaction.ask(IdRow, people.UNPROVED)]

    async def check(self) -> None:
        """Looks at all rows together. Raises `UnfitFile`."""
        for table in self._tables.values():
            if "id" in table.columns:
                await self._transaction.tell(f"create index on arriving_{table.name} (id)")
            if table.name == _OF_MEMBERS:
                await self._transaction.tell(f"create index on arriving_{table.name} (user_id)")
            if table.name == _IN_ORDER:
                await self._transaction.tell(f"create index on arriving_{table.name} (place)")
            await self._transaction.tell(f"analyze arriving_{table.name}")
        (found,) = await self._transaction.ask(CountRow, "select count(*) as count from arriving_all_organizations")
        if found.count != 1:
            raise UnfitFile("The file is not of one organization")
        await self._require_none(USERS, [_untimely(people.TIMES)])
        for table in self._tables.values():
            await self._require_none(table.name, _faults(table))

    async def write(self, advance: Callable[[int], None]) -> Sequence[TableReport]:
        """Raises `UnfitFile` when a row collides with one that is here."""
        await self._transaction.tell(BRINGS_PROOFS)
        told = [await self._write(USERS, people.ADD)]
        advance(self._rows[USERS])
        for table in self._tables.values():
            if table.name == "passkeys" and not self._wanted.same_relying_party:
                left = "Passkeys are good for the other installation's name alone" if self._rows[table.name] else ""
                told.append(TableReport(table.name, self._rows[table.name], 0, left))
            else:
                told.append(await self._write(table.name, _insert(table)))
            advance(self._rows[table.name])
        await self._ask(USERS, people.BIND, self._given(people.BIND))
        await self._ask("memberships", people.UNCONFIRMED, self._given(people.UNCONFIRMED))
        texts, organization = OwnTextRows(self._transaction), OrganizationId(self._organization)
        await texts.save_digest(organization, digest_of(await texts.list(organization)))
        return told

    async def link(self, key: bytes, proof: AuditProof) -> ChainHead:
        """Gives the entries their places in a chain of this installation. Raises `UnfitFile` when they are not those of the proof."""
        log, head, place = LogDigest(), ChainHead(), 0
        chain = OrganizationId(self._organization)
        while entries := await self._transaction.ask(_Entry, _ENTRIES, {"after": place, "most": _LINKED_AT_ONCE}):
            for entry in entries:
                log.take(entry.arrived.encode())
            links = linked(key, {chain: head}, [Unlinked(chain, AuditEntryId(entry.id), entry.content) for entry in entries])
            await self._transaction.tell(
                ADD_LINKS,
                {
                    "chains": array([chain.hex] * len(links)),
                    "sequences": array([str(link.sequence) for link in links]),
                    "entries": array([link.entry.hex for link in links]),
                    "digests": array([link.digest.hex() for link in links]),
                },
            )
            head, place = ChainHead(links[-1].sequence, links[-1].digest), entries[-1].place
        if (log.entries, log.digest) != (proof.entries, proof.digest):
            raise UnfitFile("The entries of the audit log are not those that the file's end proves")
        return head

    async def counted_people(self) -> MovedPeople:
        """After everything is written."""
        (numbers,) = await self._transaction.ask(_Numbers, people.COUNT)
        return MovedPeople(numbers.new, numbers.known, numbers.renamed, only(await self._transaction.ask(CountRow, people.TO_CHOOSE)).count)

    async def named(self) -> Sequence[NamedPerson]:
        """After everything is written."""
        return await self._transaction.ask(NamedPerson, people.NAMED, self._given(people.NAMED))

    async def status(self) -> str:
        return only(await self._transaction.ask_in_order(str, _STATUS, self._given(_STATUS)))

    async def renamed(self, *, changed: bool) -> AsyncIterator[Sequence[PersonIds]]:
        """Everybody's id there and here, or only those whose id has changed."""
        after = _FIRST
        while rows := await self._transaction.ask(PersonIds, people.WHO, {"after": after, "changed": changed, "most": _PEOPLE_AT_ONCE}):
            yield rows
            after = rows[-1].old

    async def _require_none(self, table: str, faults: Sequence[tuple[str, str]]) -> None:
        for fault, condition in faults:
            first = f"min(row.place) - (select min(place) from arriving_{table}) + 1"
            statement = f"select count(*) as count, coalesce({first}, 0) as first from arriving_{table} as row where {condition}"
            (found,) = await self._transaction.ask(_Faulty, statement, self._given(statement))
            if found.count:
                which = f"row {found.first}" if found.count == 1 else f"row {found.first} first"
                raise UnfitFile(f"{table}: {found.count} of its rows: {fault} ({which})")

    def _person(self, row: Row) -> Row:
        if row.keys() != set(people.COLUMNS):
            raise UnfitFile("it does not have the columns that people have")
        person = people.read(row)
        try:
            email: Email = self._email_syntax.parse(person.email)
        except BadRequest as refusal:
            raise UnfitFile(f"email: {refusal.message}") from None
        row["email_key"] = msgspec.Raw(msgspec.json.encode(email.key))
        if person.password_hash is not None and not is_bearable(person.password_hash):
            row["password_hash"] = _NULL
        if person.id == _FIRST:
            raise UnfitFile("id: is nobody's")
        person.require_names()
        # Each installation has its own list of time zones.
        if person.zoneinfo is not None and not self._is_zone(person.zoneinfo):
            row["zoneinfo"] = _NULL
        return row

    def _fit(self, table: MovedTable, row: Row) -> Row:
        if row.keys() != set(table.columns):
            raise UnfitFile("it does not have the columns of this table")
        require_fit(table.name, read_row(self._decoders[table.name], row), self._receiver)
        return self._sealed(table, row, None) if table.sealed and not table.declared.of_people else row

    async def _sealed_for_newcomers(self, table: MovedTable, rows: list[Row]) -> list[Row]:
        """The key of the row is the person, who may have another id here."""
        if not table.sealed:
            return rows
        wanted = array([str(one) for one in (_uuid(_read(row[key])) for row in rows for key in table.sealed.values())])
        found = await self._transaction.ask(PersonIds, _NEW_IDS, {"old": wanted})
        new = {str(one.old): str(one.new) for one in found}
        return [self._sealed(table, row, new) for row in rows]

    def _sealed(self, table: MovedTable, row: Row, new: Mapping[str, str] | None) -> Row:
        for column, key in table.sealed.items():
            opened = _read(row[column])
            if opened is not None:
                named, plain = str(_uuid(_read(row[key]))), bytes.fromhex(opened.removeprefix("\\x"))
                sealed = self._keyring.seal(plain, f"{table.name}.{column}:{named if new is None else new.get(named, named)}")
                row[column] = msgspec.Raw(msgspec.json.encode(f"\\x{sealed.hex()}"))
        return row

    async def _write(self, table: str, statement: str) -> TableReport:
        counted = f"with written as ({statement} returning 1) select count(*) as count from written"
        (row,) = await self._ask(table, counted, self._given(counted))
        rows = self._rows[table]
        if table == USERS:
            return TableReport(table, rows, row.count, "" if rows == row.count else "Those who have an account here keep it as it is")
        return TableReport(table, rows, row.count, "" if rows == row.count else _LEFT.get(table, _OF_PEOPLE))

    async def _ask(self, table: str, statement: str, parameters: Mapping[str, Any] | None = None) -> list[CountRow]:
        try:
            return await self._transaction.ask(CountRow, statement, parameters)
        except psycopg.Error as error:
            said = error.diag.message_primary or type(error).__name__
            detail = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
            raise UnfitFile(f"{table}: {said}{detail}") from error

    def _given(self, statement: str) -> Mapping[str, Any]:
        """The parameters that the statement names: PostgreSQL must be able to tell the type of each."""
        return {name: value for name, value in self._parameters.items() if f"%({name})s" in statement}


@asynccontextmanager
async def arriving(
    transaction: Transaction, means: ArrivalMeans, head: FileHead, wanted: ArrivalTerms
) -> AsyncIterator[ArrivingOrganization]:
    await transaction.tell(_WITHOUT_LIMITS)
    arrival = ArrivingOrganization(transaction, await moved_tables(transaction), means, head, wanted)
    await arrival.begin()
    yield arrival


def _faults(table: MovedTable) -> list[tuple[str, str]]:
    """What a row may be guilty of, and the condition that says so."""
    found = [_untimely(table.times)] if table.times else []
    if table.owner is not None and table.name != ORGANIZATIONS:
        found.append(("they name another organization", f"row.{table.owner} is distinct from %(organization)s::uuid"))
    for reference in table.references:
        if reference.parent == USERS and reference.may_be_gone:
            continue
        parent = "arriving_people" if reference.parent == USERS else f"arriving_{reference.parent}"
        key = "old" if reference.parent == USERS else "id"
        missing = (
            f"row.{reference.column} is not null and not exists (select from {parent} as named where named.{key} = row.{reference.column})"
        )
        found.append((f"their {reference.column} is of nobody and nothing in the file", missing))
    found += [(fault, f"not coalesce(({condition}), false)") for fault, condition in table.declared.checks.items()]
    return found


def _untimely(columns: Sequence[str]) -> tuple[str, str]:
    """PostgreSQL keeps times that Python cannot represent. Every list with such a row would fail, other tenants' lists of people too."""
    conditions = [f"row.{column} not between '1970-01-01' and '9999-01-01'" for column in columns]
    return "a time is beyond all times", " or ".join(conditions)


def _insert(table: MovedTable) -> str:
    declared = table.declared
    columns = [*table.columns, *(column for column in declared.sets if column not in table.columns)]
    values = ", ".join(_value(table, column) for column in columns)
    conditions = [declared.arrives]
    person = table.person
    join = "" if person is None else f" left join arriving_people as person on person.old = row.{person}"
    if declared.of_people:
        conditions.append("person.is_trusted")
    # An authenticator that another account here has already stays with that account.
    collides = " on conflict do nothing" if declared.of_people else ""
    return (
        f"insert into {table.name} ({', '.join(columns)}) select {values} from arriving_{table.name} as row{join}"
        f" where {' and '.join(conditions)} order by row.place{collides}"
    )


def _value(table: MovedTable, column: str) -> str:
    declared = table.declared
    if column in declared.sets:
        return declared.sets[column]
    if column == table.person:
        return "person.new"
    new = f"(select people.new from arriving_people as people where people.old = row.{column})"
    if any(one.column == column for one in table.people):
        return new
    if declared.ids.get(column) is IdMeaning.PERSON:
        return f"case when row.{column} is not null then coalesce({new}, {_NIL}) end"
    if column in declared.kept_by:
        parent = declared.kept_by[column]
        return f"(select kept.id from arriving_{parent} as kept where kept.id = row.{column})"
    return f"row.{column}"


def _read(value: msgspec.Raw) -> Any:
    return msgspec.json.decode(value)


def _uuid(value: object) -> UUID:
    return UUID(str(value))


_NULL: Final = msgspec.Raw(b"null")
_OF_PEOPLE: Final = "Rows of people who are not trusted, or have an account here, are left out"
_LEFT: Final[Mapping[str, str]] = {
    "audit_personal": "Left out is what is about people who have another id here, or are not in the file: nobody could have them forgotten"
}

_WITHOUT_LIMITS: Final = """
    select set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true),
           set_config('lock_timeout', '60s', true), set_config('timezone', 'UTC', true)
"""
# Entries outlive their organization, and a chain has one beginning.
_HERE: Final = f"""
    select exists (select from all_organizations where id = %(organization)s::uuid)
           or exists (select from audit_entries where organization_id = %(organization)s::uuid)
           or exists (select from audit_links where chain_id = %(organization)s::uuid) as was_here,
           (
               select max(created_at)
                 from audit_entries
                where organization_id = %(organization)s::uuid and action = 'organization.imported'
           ) as imported,
           {MIGRATIONS} as migrations
"""
_ENTRIES: Final[LiteralString] = f"""
    select arrived.place, entries.id, {CONTENT.replace("entries.", "arrived.")} as arrived, {CONTENT} as content
      from arriving_audit_entries as arrived
      join audit_entries as entries on entries.id = arrived.id
     where arrived.place > %(after)s
     order by arrived.place
     limit %(most)s
"""
_STATUS: Final = "select status from organizations where id = %(organization)s::uuid"
_NEW_IDS: Final = "select old, new, is_known from arriving_people where old = any (%(old)s::uuid[])"
