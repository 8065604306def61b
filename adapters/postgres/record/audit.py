"""The audit log in PostgreSQL: its entries, its hash chains, and the erasure of users from records."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, LiteralString
from uuid import UUID

import trio
from psycopg.errors import UniqueViolation

from adapters.postgres import locks
from adapters.postgres.columns import array, page_of, storable_text
from adapters.postgres.failures import translated
from adapters.postgres.statements import OnPool, Transaction, ask, ask_in_order, first_made, only, tell
from adapters.postgres.ties import has_name, may_see_name, shown_name
from core.domain.errors import Unavailable
from core.domain.identifiers import ApiKeyId, AuditEntryId, ManagementKeyId, OrganizationId, ScimTokenId, SetupLinkId, UserId
from core.domain.record.audit import (
    DELETED_USER,
    FORGOTTEN_ADDRESS,
    FORGOTTEN_USER_AGENT,
    PLATFORM_CHAIN,
    AuditEntry,
    AuditFilter,
    ChainFinding,
    ChainHead,
    Fault,
    NamedService,
    Person,
    PersonalPart,
    StoredLink,
    Unlinked,
    linked,
)
from core.domain.record.events import ACTING_KEY, ActingKey, ActingKind
from core.domain.requests import MOST_ROWS_COUNTED, Listed, Page
from core.frozen import Frozen
from ports.jobs import Advance, ignored
from ports.record import Backlog


def names(text: LiteralString, key: LiteralString) -> LiteralString:
    """`key` is an address in small letters; the text may have the address percent-encoded, as in a link. A longer address that contains
    this one does not count: joann@acme.example does not name ann@acme.example, and neither does ann@acme.example.org.
    """
    return rf"""
        exists (
            select
              from (values ({key}), (replace({key}, '@', '%%40'))) as written (form)
             cross join lateral (
                       select piece, lead(piece) over (order by place) as next_piece
                         from unnest(string_to_array(lower({text}), written.form)) with ordinality as pieces (piece, place)
                   ) as around
             where around.piece ~ '(^|[^[:alnum:]_.+-]|%%[0-9a-f]{{2}}|\\[bfnrt])$'
               and around.next_piece !~ '^[.-]?[[:alnum:]]'
        )"""


IS_BEING_FORGOTTEN: Final = "exists (select from privacy_requests where completed_at is null and privacy_requests.user_id = {user})"
"""Holds as long as rows about the person may be left."""


# For a moment, this also hides records of another person who has one of the former addresses by now.
_ADDRESSES_OF_THEIRS: Final = """
    select unnest(privacy_requests.email_keys)
     union all
    select email_key from former_addresses where former_addresses.user_id = privacy_requests.user_id"""


def names_somebody_being_forgotten(text: LiteralString) -> LiteralString:
    """A condition for statements that show records: users who are being erased must not appear, even before the job has removed every
    row.
    """
    return f"""
        exists (
            select
              from privacy_requests
             cross join lateral ({_ADDRESSES_OF_THEIRS}) as theirs (key)
             where privacy_requests.completed_at is null and {names(text, "theirs.key")}
        )"""


def target_user(row: LiteralString) -> LiteralString:
    """The id of the person whom an event or an entry is about, if it is about one; null otherwise."""
    return target_of(row, "user")


def target_of(row: LiteralString, kind: LiteralString) -> LiteralString:
    """The id of what an event or an entry is about, if that is of this kind and has a UUID for an id; null otherwise."""
    is_id: LiteralString = f"{row}.target_id ~ '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$'"
    return f"case when {row}.target_type = '{kind}' and {is_id} then {row}.target_id::uuid end"


# A condition on the row `audit_personal` of the entry `entries`: whether readers may still see it. The entry that records the forgetting,
# and who did it, stays visible.
STAYS: Final[LiteralString] = f"""
                       not {IS_BEING_FORGOTTEN.format(user="audit_personal.actor_id")}
                   and (entries.action = 'user.anonymized' or not {IS_BEING_FORGOTTEN.format(user=target_user("entries"))})"""


class _Last(Frozen):
    created_at: datetime


# One step in an index.
LAST_OF_PLATFORM: Final = """
    select created_at
      from audit_entries
     where organization_id is null and action = %(action)s and success
     order by created_at desc
     limit 1
"""


class PostgresAuditLog(OnPool):
    """Implements `ports.record.AuditLog`."""

    async def newest(self, organization: OrganizationId, page: Page) -> Listed[AuditEntry]:
        return await self._list(NEWEST, {"organization": organization}, page)

    async def matching(self, organization: OrganizationId, wanted: AuditFilter, page: Page) -> Listed[AuditEntry]:
        parameters = {
            "organization": organization,
            "action": None if wanted.action is None else storable_text(wanted.action),
            "target_type": wanted.target_type,
            "target_id": None if wanted.target_id is None else storable_text(wanted.target_id),
            "actor": wanted.actor,
            "since": wanted.since,
            "until": wanted.until,
            "most": MOST_ROWS_COUNTED,
        }
        return await self._list(matching(wanted, of_platform=organization == PLATFORM_CHAIN), parameters, page)

    async def last(self, action: str) -> datetime | None:
        return first_made(await ask(self._pool, _Last, LAST_OF_PLATFORM, {"action": action}), lambda row: row.created_at)

    async def find(self, organization: OrganizationId, entry: AuditEntryId) -> AuditEntry | None:
        rows = await ask(
            self._pool, partial(_entry, organization), ONE_ENTRY, {"organization": organization, "platform": PLATFORM_CHAIN, "entry": entry}
        )
        return next((entry for _, entry in rows), None)

    async def _list(self, statement: LiteralString, parameters: Mapping[str, Any], page: Page) -> Listed[AuditEntry]:
        organization = OrganizationId(parameters["organization"])
        paged = {**parameters, "limit": page.limit, "offset": page.offset}
        return page_of(await ask(self._pool, partial(_entry, organization), statement, paged))


def _entry(
    organization: OrganizationId,
    /,
    *,
    total: int,
    id: UUID | None,  # noqa: A002 - the column's name
    actor_id: UUID | None,
    actor_email: str | None,
    actor_is_platform_owner: bool | None,
    actor_name: str | None,
    impersonator_id: UUID | None,
    impersonator_email: str | None,
    impersonator_is_platform_owner: bool | None,
    subject_id: UUID | None,
    subject_email: str | None,
    subject_name: str | None,
    service_slug: str | None,
    service_name: str | None,
    forgotten: bool,
    address: str | None,
    user_agent: str | None,
    details: Mapping[str, Any],
    **columns: Any,
) -> tuple[int, AuditEntry | None]:
    """A row of a page. An empty page is one row without an entry."""
    if id is None:
        return total, None
    actor = _person(actor_id, actor_email, is_platform_owner=actor_is_platform_owner, name=actor_name)
    entry = AuditEntry(
        id=AuditEntryId(id),
        organization=organization,
        actor=_acting_key(actor_id, details.get(ACTING_KEY)) or actor,
        impersonator=_person(impersonator_id, impersonator_email, is_platform_owner=impersonator_is_platform_owner),
        subject=_person(subject_id, subject_email, is_platform_owner=False, name=subject_name),
        service=None if service_slug is None or service_name is None else NamedService(service_slug, service_name),
        address=FORGOTTEN_ADDRESS if forgotten else address,
        user_agent=FORGOTTEN_USER_AGENT if forgotten else user_agent,
        details={name: value for name, value in details.items() if name != ACTING_KEY},
        **columns,
    )
    return total, entry


_IDS: Final[Mapping[ActingKind, Callable[[UUID], ApiKeyId | ManagementKeyId | ScimTokenId | SetupLinkId]]] = {
    ActingKind.API_KEY: ApiKeyId,
    ActingKind.MANAGEMENT_KEY: ManagementKeyId,
    ActingKind.SCIM_TOKEN: ScimTokenId,
    ActingKind.SETUP_LINK: SetupLinkId,
}


def _acting_key(identifier: UUID | None, key: Mapping[str, Any] | None) -> ActingKey | None:
    if identifier is None or key is None:
        return None
    kind = ActingKind(key.get("kind", ActingKind.API_KEY))
    return ActingKey(_IDS[kind](identifier), key["name"], key["prefix"], kind)


def _person(identifier: UUID | None, email: str | None, *, is_platform_owner: bool | None, name: str | None = None) -> Person | None:
    if identifier is None:
        return None
    return Person(UserId(identifier), DELETED_USER if email is None else email, bool(is_platform_owner), name)


def matching(wanted: AuditFilter, *, of_platform: bool = False) -> LiteralString:
    """The statement with exactly the requested conditions, because one plan for all conditions would suit none of them."""
    conditions: Sequence[tuple[object, LiteralString]] = (
        (wanted.action, "and action = %(action)s"),
        (wanted.target_type, "and target_type = %(target_type)s"),
        (wanted.target_id, "and target_id = %(target_id)s"),
        (wanted.actor, "and actor_id = %(actor)s"),
        (wanted.success, "and success" if wanted.success else "and not success"),  # written out, it matches the index of failures
        (wanted.since, "and created_at >= %(since)s"),
        (wanted.until, "and created_at < %(until)s"),
    )
    asked: LiteralString = "\n                ".join(condition for value, condition in conditions if value is not None)
    return (_MATCHING_HEAD_OF_PLATFORM if of_platform else _MATCHING_HEAD) + asked + _MATCHING_TAIL


# The digest of the separate personal part of an entry. Use it in a statement that has these columns.
PERSONAL_DIGEST: Final[LiteralString] = "sha256(salt || convert_to(jsonb_build_array(address, user_agent, {details})::text, 'UTF8'))"

# Entries and chains have no names, so the name is that of today.
_MAY_SEE_ACTOR: Final[LiteralString] = may_see_name("entries.organization_id", "entries.actor_id")

# Of the people whom entries are about, an organization sees those who still have to do with it.
_IS_TIED: Final = """(
                       exists (
                           select from memberships
                            where memberships.org_id = entries.organization_id and memberships.user_id = users.id
                           offset 0
                       )
                    or exists (
                           select from service_users
                            where service_users.org_id = entries.organization_id and service_users.user_id = users.id
                           offset 0
                       )
                   )"""

# The limits of 1 change only the plan. The length of a page is a parameter, for which the planner assumes the worst case. Without the
# limits the planner would read whole tables for a join, where each row needs one look into an index.
_ENTRIES: Final[LiteralString] = f"""
    select totals.total, entries.id,
           entries.actor_id, actors.email as actor_email, actors.is_platform_owner as actor_is_platform_owner,
           case when {has_name("actors")} and {_MAY_SEE_ACTOR} then {shown_name("actors")} end as actor_name,
           entries.impersonator_id, impersonators.email as impersonator_email,
           impersonators.is_platform_owner as impersonator_is_platform_owner,
           subjects.id as subject_id, subjects.email as subject_email,
           case when {has_name("subjects")} and {may_see_name("entries.organization_id", "subjects.id")}
                then {shown_name("subjects")} end as subject_name,
           services.slug as service_slug, services.name as service_name,
           entries.action, entries.target_type, entries.target_id, host(personal.address) as address, personal.user_agent,
           entries.personal_digest is not null and personal.entry_id is null as forgotten,
           entries.success, entries.details || coalesce(personal.details, '{{}}') as details, entries.created_at
      from totals
      left join page on true
      left join lateral (select * from audit_entries where audit_entries.id = page.entry_id limit 1) as entries on true
      left join lateral (
                select *
                  from audit_personal
                 where audit_personal.entry_id = page.entry_id
                   -- While people are being forgotten, the rest of their personal parts is not shown.
                   and {STAYS}
                 limit 1
           ) as personal on true
      left join lateral (
                select email, is_platform_owner, name, given_name, family_name from users where users.id = entries.actor_id limit 1
           ) as actors on true
      left join lateral (select email, is_platform_owner from users where users.id = entries.impersonator_id limit 1) as impersonators
             on true
      left join lateral (
                select id, email, name, given_name, family_name
                  from users
                 where users.id = {target_user("entries")}
                   and (entries.organization_id is null or {_IS_TIED})
                 limit 1
           ) as subjects on true
      left join lateral (
                select slug, name
                  from services
                 where services.id = {target_of("entries", "service")}
                   and (entries.organization_id is null or services.org_id = entries.organization_id)
                 limit 1
           ) as services on true
"""

# Each place in the chain is a number. So a page is found by its number, however far back, and the number of the last link is the total.
NEWEST: Final[LiteralString] = (
    """
    with waiting as materialized (
             select count(*) as entries from audit_pending where chain_id = %(organization)s
         ),
         ends as materialized (
             select coalesce(max(sequence), 0) as sequence from audit_links where chain_id = %(organization)s
         ),
         totals as (
             select waiting.entries + ends.sequence as total from waiting, ends
         ),
         not_linked as materialized (
             select entry_id
               from audit_pending
              where chain_id = %(organization)s
              order by entry_id desc
             offset %(offset)s
              limit %(limit)s
         ),
         page as (
             select entry_id, null as sequence from not_linked
              union all
             (select entry_id, sequence
                from audit_links
               where chain_id = %(organization)s
                 and sequence <= (select ends.sequence - greatest(%(offset)s - waiting.entries, 0) from ends, waiting)
               order by sequence desc
               limit %(limit)s - (select count(*) from not_linked))
         )
"""
    + _ENTRIES
    + " order by page.sequence desc nulls first, page.entry_id desc"
)

# Entries of the platform's log belong to no organization.
ONE_ENTRY: Final[LiteralString] = (
    """
    with page as materialized (
             select id as entry_id
               from audit_entries
              where id = %(entry)s
                and coalesce(organization_id, %(platform)s) = %(organization)s
         ),
         totals as (
             select count(*) as total from page
         )
"""
    + _ENTRIES
)

_MATCHING_HEAD: Final[LiteralString] = """
    with matching as materialized (
             select id as entry_id, created_at
               from audit_entries
              where organization_id = %(organization)s
                """
# Entries of the platform's log belong to no organization.
_MATCHING_HEAD_OF_PLATFORM: Final[LiteralString] = """
    with matching as materialized (
             select id as entry_id, created_at
               from audit_entries
              where organization_id is null
                """

_MATCHING_TAIL: Final[LiteralString] = (
    """
              order by created_at desc, id desc
              limit %(most)s
         ),
         totals as (
             select count(*) as total from matching
         ),
         page as (
             select entry_id from matching order by created_at desc, entry_id desc offset %(offset)s limit %(limit)s
         )
"""
    + _ENTRIES
    + " order by entries.created_at desc, entries.id desc"
)


MOST_PENDING_COUNTED: Final = 100_000
_READ_AT_ONCE: Final = 10_000
# Entries that are read, hashed and written at once, so that other tasks get their turn between parts. One transaction takes several parts,
# because a commit costs more than a part.
_TAKEN_AT_ONCE: Final = 200
_LINKED_AT_ONCE: Final = 100


class _Lock(Frozen):
    is_ours: bool


class _Taken(Frozen):
    chain_id: UUID
    entry_id: UUID
    content: str


class _Head(Frozen):
    chain_id: UUID
    sequence: int
    digest: bytes


class _Backlog(Frozen):
    pending: int
    oldest: datetime | None


class StoredLinkRow(Frozen):
    sequence: int
    entry_id: UUID
    digest: bytes
    content: str | None
    belongs: bool
    personal: str


class _Unchained(Frozen):
    """`last_id` and `last_at` name the last entry that was read; they are None when no entry was left. Without an entry here, everything
    was in order.
    """

    last_id: UUID | None
    last_at: str | None
    chain_id: UUID | None
    entry_id: UUID | None
    waits: bool


class _Organization(Frozen):
    id: UUID
    slug: str


class PostgresAuditChains(OnPool):
    """Implements `ports.record.AuditChains`."""

    async def link(self, key: bytes, most: int) -> int | None:
        try:
            return await self._link(key, most)
        except UniqueViolation:
            # A linked entry waits in the queue again. Whatever put it there, it must not stop all other entries, so it leaves
            # the queue.
            await tell(self._pool, _DROP_LINKED)
            return await self._link(key, most)

    async def _link(self, key: bytes, most: int) -> int | None:
        with translated():
            async with self._pool.connection() as connection, connection.pipelined_transaction() as pipelined:
                transaction = Transaction(connection, pipelined)
                (lock,) = await transaction.ask(_Lock, _LOCK, {"namespace": locks.NAMESPACE, "lock": locks.AUDIT_CHAINS})
                if not lock.is_ours:
                    return None
                heads: dict[OrganizationId, ChainHead] = {}
                total = 0
                # Link part by part, so that other tasks get their turn. Each part sees what the previous holder of the lock committed,
                # because the part's statement begins after the lock was taken.
                while total < most:
                    wanted = min(most - total, _TAKEN_AT_ONCE)
                    taken = [_unlinked(row) for row in await transaction.ask(_Taken, _TAKE, {"most": wanted})]
                    total += len(taken)
                    await _find_heads(transaction, heads, {one.chain for one in taken} - heads.keys())
                    for start in range(0, len(taken), _LINKED_AT_ONCE):
                        await trio.lowlevel.checkpoint()
                        await _add(transaction, key, heads, taken[start : start + _LINKED_AT_ONCE])
                    if len(taken) < wanted:
                        break
                if total:
                    await transaction.commit()
                return total

    async def backlog(self) -> Backlog:
        (row,) = await ask(self._pool, _Backlog, AUDIT_BACKLOG, {"most_entries": MOST_PENDING_COUNTED})
        return Backlog(row.pending, row.oldest)

    async def next_chains(self, after: OrganizationId | None, most: int) -> Sequence[OrganizationId]:
        return await ask_in_order(self._pool, OrganizationId, _FIRST if after is None else _NEXT, {"after": after, "most": most})

    async def links(self, chain: OrganizationId, since: int, most: int) -> Sequence[StoredLink]:
        rows = await ask(self._pool, StoredLinkRow, LINKS, {"chain": chain, "sequence": since, "most": most})
        return [stored_link(chain, row) for row in rows]

    async def parts(self, places: Sequence[tuple[OrganizationId, int]], most: int) -> Sequence[Sequence[StoredLink]]:
        parts: list[Sequence[StoredLink]] = [()] * len(places)
        failed: list[Unavailable] = []

        async def read(number: int) -> None:
            try:
                parts[number] = await self.links(*places[number], most)
            except Unavailable as error:
                failed.append(error)

        async with trio.open_nursery() as nursery:
            for number in range(len(places)):
                nursery.start_soon(read, number)
        if failed:
            raise failed[0]
        return parts

    async def about(self, chain: OrganizationId | None) -> int:
        return only(await ask_in_order(self._pool, int, _ABOUT_ALL if chain is None else _ABOUT_ONE, {"chain": chain}))

    async def unchained(self, chain: OrganizationId | None, most: int, advance: Advance = ignored) -> Sequence[ChainFinding]:
        statement = UNCHAINED if chain is None else UNCHAINED_OF_PLATFORM if chain == PLATFORM_CHAIN else UNCHAINED_OF_ORGANIZATION
        found: list[ChainFinding] = []
        place = {"entry": PLATFORM_CHAIN, "at": "-infinity"}
        while len(found) < most:
            rows = await ask(self._pool, _Unchained, statement, {**place, "organization": chain, "most": _READ_AT_ONCE})
            found += [
                ChainFinding(OrganizationId(row.chain_id), Fault.STRAY if row.waits else Fault.LOOSE, entry=AuditEntryId(row.entry_id))
                for row in rows
                if row.chain_id is not None and row.entry_id is not None
            ]
            last = rows[0]
            if last.last_id is None or last.last_at is None:
                break
            advance(_READ_AT_ONCE)
            place = {"entry": OrganizationId(last.last_id), "at": last.last_at}
        return found[:most]

    async def find(self, slug: str) -> OrganizationId | None:
        return first_made(await ask(self._pool, _Organization, _FIND, {"slug": storable_text(slug)}), lambda row: OrganizationId(row.id))

    async def slugs(self) -> Mapping[OrganizationId, str]:
        return {OrganizationId(row.id): row.slug for row in await ask(self._pool, _Organization, _SLUGS)}


def stored_link(chain: OrganizationId, row: StoredLinkRow) -> StoredLink:
    return StoredLink(
        chain,
        row.sequence,
        AuditEntryId(row.entry_id),
        row.digest,
        row.content,
        belongs=row.belongs,
        personal=PersonalPart(row.personal),
    )


def _unlinked(row: _Taken) -> Unlinked:
    return Unlinked(OrganizationId(row.chain_id), AuditEntryId(row.entry_id), row.content)


async def _find_heads(transaction: Transaction, heads: dict[OrganizationId, ChainHead], unknown: set[OrganizationId]) -> None:
    if unknown:
        heads.update(dict.fromkeys(unknown, ChainHead()))
        rows = await transaction.ask(_Head, _HEADS, {"chains": array([chain.hex for chain in unknown])})
        heads.update({OrganizationId(row.chain_id): ChainHead(row.sequence, row.digest) for row in rows})


async def _add(transaction: Transaction, key: bytes, heads: dict[OrganizationId, ChainHead], entries: Sequence[Unlinked]) -> None:
    """Link the entries to the heads of their chains, and move the heads."""
    links = linked(key, heads, entries)
    heads.update({link.chain: ChainHead(link.sequence, link.digest) for link in links})
    await transaction.tell(
        ADD_LINKS,
        {
            "chains": array([link.chain.hex for link in links]),
            "sequences": array([str(link.sequence) for link in links]),
            "entries": array([link.entry.hex for link in links]),
            "digests": array([link.digest.hex() for link in links]),
        },
    )


# The content of an entry, in PostgreSQL's own text form. Every version of PostgreSQL writes jsonb the same way, and converting to Python
# types would cost more than the hashing. We interpret nothing, so the digest can cover any stored value.
CONTENT: Final[LiteralString] = """jsonb_build_array(
               entries.id, entries.organization_id, entries.actor_id, entries.impersonator_id, entries.action, entries.target_type,
               entries.target_id, entries.success, entries.details, encode(entries.personal_digest, 'hex'),
               extract(epoch from entries.created_at)::text
           )::text"""

_CHAIN: Final[LiteralString] = "coalesce(entries.organization_id, '00000000-0000-0000-0000-000000000000')"

_LOCK: Final = "select pg_try_advisory_xact_lock(%(namespace)s, %(lock)s) as is_ours"

# The condition compares with an array. PostgreSQL would plan a semi-join once, while few entries wait, and would later read all waiting
# entries.
_TAKE: Final[LiteralString] = f"""
    with taken as (
             delete from audit_pending
              where entry_id = any (array(select entry_id from audit_pending order by entry_id limit %(most)s))
          returning entry_id
         )
    select {_CHAIN} as chain_id, entries.id as entry_id, {CONTENT} as content
      from taken
      join audit_entries as entries on entries.id = taken.entry_id
     order by entries.id
"""

# The planner's estimate, which may be a bit old. Links of a chain have no gaps, unless somebody has tampered with them: then a number may
# be as large as numbers get.
_ABOUT_ALL: Final = "select greatest(reltuples, 0)::bigint as links from pg_class where oid = 'audit_links'::regclass"
_ABOUT_ONE: Final = """
    select coalesce(least(max(sequence)::numeric - min(sequence) + 1, 1e15), 0)::bigint as links
      from audit_links
     where chain_id = %(chain)s
"""

_HEADS: Final = """
    select wanted.chain_id, head.sequence, head.digest
      from unnest(%(chains)s::uuid[]) as wanted (chain_id)
     cross join lateral (
               select sequence, digest
                 from audit_links
                where audit_links.chain_id = wanted.chain_id
                order by sequence desc
                limit 1
           ) as head
"""

ADD_LINKS: Final = """
    insert into audit_links (chain_id, sequence, entry_id, digest)
    select chain_id, sequence, entry_id, decode(digest, 'hex')
      from unnest(%(chains)s::uuid[], %(sequences)s::bigint[], %(entries)s::uuid[], %(digests)s::text[])
           as links (chain_id, sequence, entry_id, digest)
"""

_DROP_LINKED: Final = "delete from audit_pending using audit_links where audit_links.entry_id = audit_pending.entry_id"

# Ids ascend with time, so the entry with the first id counts as the oldest.
AUDIT_BACKLOG: Final = """
    select (select count(*) from (select from audit_pending limit %(most_entries)s) as counted) as pending,
           (select created_at
              from audit_entries
             where id = (select entry_id from audit_pending order by entry_id limit 1)) as oldest
"""

# A part is a range of places, not a number of rows, so that no part grows larger, whatever the planner assumes. All rows that share a place
# are read together: nobody can hide a link behind another link by dropping the constraint that forbids it.
LINKS: Final[LiteralString] = f"""
    with beginning as materialized (
             select min(sequence) as sequence from audit_links where chain_id = %(chain)s and sequence >= %(sequence)s
         )
    select links.sequence, links.entry_id, links.digest,
           case when entries.id is not null then {CONTENT} end as content,
           {_CHAIN} = links.chain_id as belongs,
           case when personal.entry_id is not null
                then case when {PERSONAL_DIGEST.format(details="personal.details")} = entries.personal_digest
                          then 'intact'
                          else 'altered'
                     end
                when entries.personal_digest is not null then 'forgotten'
                else 'none'
           end as personal
      from audit_links as links
      left join lateral (select * from audit_entries where audit_entries.id = links.entry_id limit 1) as entries on true
      left join lateral (select * from audit_personal where audit_personal.entry_id = links.entry_id limit 1) as personal on true
     where links.chain_id = %(chain)s
       and links.sequence >= (select sequence from beginning)
       and links.sequence <= (select sequence + least(%(most)s - 1, 9223372036854775807 - sequence) from beginning)
     order by links.sequence, links.entry_id
"""


# Each step is one look into the index, however long the chains are.
def _next(which: LiteralString) -> LiteralString:
    return f"""
    with recursive chains as (
            (select 1 as place, chain_id from audit_links {which} order by chain_id limit 1)
             union all
            select place + 1, (select chain_id from audit_links where chain_id > chains.chain_id order by chain_id limit 1)
              from chains
             where place < %(most)s and chain_id is not null
         )
    select chain_id from chains where chain_id is not null order by place
"""


_FIRST: Final = _next("")
_NEXT: Final = _next("where chain_id > %(after)s")


def _unchained(which: LiteralString, *, last: LiteralString) -> LiteralString:
    return f"""
    with entries as materialized (
             select id, organization_id, created_at from audit_entries where {which} limit %(most)s
         )
    select ends.last_id, ends.last_at, found.chain_id, found.entry_id, coalesce(found.waits, false) as waits
      from (values (0)) as always
      left join (select id as last_id, created_at::text as last_at from entries order by {last} limit 1) as ends on true
      left join (
               select {_CHAIN} as chain_id, entries.id as entry_id, waiting.entry_id is not null as waits
                 from entries
                 left join lateral (select * from audit_links where audit_links.entry_id = entries.id limit 1) as links on true
                 left join lateral (select * from audit_pending where audit_pending.entry_id = entries.id limit 1) as waiting on true
                where coalesce(links.sequence, 0) <= 0 and waiting.chain_id is distinct from {_CHAIN}
           ) as found on true
"""


# The caller reads the entries in parts. Each part is one statement, which sees entries, links and waiting entries at one moment. Times are
# passed as text, because the table may hold a time that Python cannot represent.
UNCHAINED: Final[LiteralString] = _unchained("id > %(entry)s order by id", last="id desc")

# The first condition adds nothing logically. It shows the planner how few rows are left.
_AFTER: Final[LiteralString] = """created_at >= %(at)s::text::timestamptz
                and (created_at, id) > (%(at)s::text::timestamptz, %(entry)s)
              order by created_at, id"""

UNCHAINED_OF_ORGANIZATION: Final[LiteralString] = _unchained(
    f"organization_id = %(organization)s and {_AFTER}", last="created_at desc, id desc"
)

UNCHAINED_OF_PLATFORM: Final[LiteralString] = _unchained(f"organization_id is null and {_AFTER}", last="created_at desc, id desc")

_FIND: Final = "select id, slug from organizations where slug = %(slug)s"

_SLUGS: Final = "select id, slug from all_organizations"
