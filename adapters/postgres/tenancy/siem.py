"""SIEM configurations, and the queue of their exports, in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres import locks
from adapters.postgres.columns import Columns, DueRow, IdRow, due_in, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.jobs import LostClaims
from adapters.postgres.record.audit import IS_BEING_FORGOTTEN, STAYS
from adapters.postgres.record.deliveries import AT_LEISURE
from adapters.postgres.statements import OnStatements, ask, ask_for_many, first, first_made, only, tell
from core.domain.identifiers import OrganizationId, SiemId
from core.domain.tenancy.siem import SIEM_TOPIC, Cursor, Numbered, SiemConfiguration, SiemHealth, SiemProvider, Stream
from core.frozen import Frozen
from ports.tenancy.receivers import ClaimedExport, ExportTarget, ShownSiem, Stored

SIEM: Final = Columns(
    SiemConfiguration,
    "siem_configurations",
    named={"organization": "org_id", "provider": "provider_type"},
    apart=("has_credentials",),
    texts=("name",),
)


def _stored(*, sealed_credentials: bytes | None, **columns: Any) -> Stored:
    return Stored(SIEM.row(has_credentials=sealed_credentials is not None, **columns), sealed_credentials)


def _shown(*, has_credentials: bool, **columns: Any) -> ShownSiem:
    return ShownSiem(SIEM.taken(columns, has_credentials=has_credentials), SiemHealth(**columns))


class SiemRows(OnStatements):
    """Implements `ports.tenancy.receivers.SiemStore`."""

    async def find(self, organization: OrganizationId) -> ShownSiem | None:
        return first(await self._statements.ask(_shown, _SHOWN, {"organization": organization}))

    async def stored(self, organization: OrganizationId) -> Stored | None:
        return first(await self._statements.ask(_stored, _GET, {"organization": organization}))

    async def hold(self, organization: OrganizationId) -> Stored | None:
        return first(await self._statements.ask(_stored, _HOLD, {"organization": organization}))

    async def save(self, configuration: SiemConfiguration, sealed_credentials: bytes | None) -> None:
        await self._statements.tell(_SAVE, {**SIEM.values(configuration), "sealed_credentials": sealed_credentials})
        self._statements.ring(SIEM_TOPIC)

    async def delete(self, configuration: SiemId) -> None:
        await self._statements.tell("delete from siem_configurations where id = %(id)s", {"id": configuration})

    async def health(self, configuration: SiemId) -> SiemHealth:
        return only(await self._statements.ask(SiemHealth, _OF_ONE, {"id": configuration}))


_GET: Final[LiteralString] = f"select {SIEM.names}, sealed_credentials from siem_configurations where org_id = %(organization)s"

_HOLD: Final[LiteralString] = f"{_GET} for no key update"

# A change ends the lease. So a batch that a forwarder is sending under the previous configuration does not count as received.
_SAVE: Final[LiteralString] = f"""
    insert into siem_configurations ({SIEM.into("sealed_credentials")})
    values ({SIEM.inserted("sealed_credentials")})
        on conflict (id) do update
       set {SIEM.replaced("id", "organization", "created_at")}, sealed_credentials = excluded.sealed_credentials,
           failures = 0, last_error = null, next_at = now(), lease = null, leased_until = null
"""

# Each subquery reads one row through an index.
_HEALTH: Final[LiteralString] = """
           last_delivered_at, last_error,
           (greatest(coalesce(ends.sequence, 0) - audit_sequence, 0) + greatest(sign_ins - sign_in_sequence, 0))::bigint as lag,
           greatest(extract(epoch from now() - least(next_entry.created_at, next_sign_in.created_at)), 0)::bigint as lag_seconds
      from siem_configurations as configurations
      left join lateral (
               select sequence from audit_links where chain_id = configurations.org_id order by sequence desc limit 1
           ) as ends on true
      left join lateral (
               select audit_entries.created_at
                 from audit_links
                 join audit_entries on audit_entries.id = audit_links.entry_id
                where audit_links.chain_id = configurations.org_id and audit_links.sequence = configurations.audit_sequence + 1
           ) as next_entry on true
      left join lateral (
               select created_at
                 from sign_in_links
                where export_id = configurations.id and sequence = configurations.sign_in_sequence + 1
           ) as next_sign_in on true
"""

_OF_ONE: Final[LiteralString] = f"select {_HEALTH} where configurations.id = %(id)s"

_SHOWN: Final[LiteralString] = f"""
    select {SIEM.names_in("configurations")}, sealed_credentials is not null as has_credentials, {_HEALTH}
     where configurations.org_id = %(organization)s
"""


# `_LOOKED_AT` is the number of configurations that one statement reads. `_PARTS` is the number of statements after which a claim that finds
# nothing stops. The next claim goes on where the last one stopped, so the cost of a claim does not grow with the number of exports.
_LOOKED_AT: Final = 500
_PARTS: Final = 4
_FIRST: Final = UUID(int=0)


class _Claim(Frozen):
    """One claimed configuration. When nothing was claimed, there is one row, and its `id` is null. `last` is the id at which the claim
    stopped; null after the last configuration.
    """

    last: UUID | None
    id: UUID | None
    org_id: UUID
    provider_type: str
    failures: int
    batch_size: int
    next_at: datetime
    lease: UUID
    audit_sequence: int
    audit_digest: bytes
    sign_in_sequence: int
    sign_in_digest: bytes

    def claimed(self) -> ClaimedExport | None:
        if self.id is None:
            return None
        return ClaimedExport(
            id=SiemId(self.id),
            organization=OrganizationId(self.org_id),
            provider=SiemProvider(self.provider_type),
            failures=self.failures,
            batch_size=self.batch_size,
            due_at=self.next_at,
            lease=self.lease,
            cursors={
                Stream.AUDIT: Cursor(self.audit_sequence, self.audit_digest),
                Stream.SIGN_IN: Cursor(self.sign_in_sequence, self.sign_in_digest),
            },
        )


class _Numbered(Frozen):
    sequence: int
    at: datetime | None
    entry: Mapping[str, Any] | None
    commitment: str | None
    personal: str | None
    salt: str | None

    def numbered(self) -> Numbered:
        return Numbered(self.sequence, self.at, self.entry, self.commitment, self.personal, self.salt)


class _Count(Frozen):
    count: int | None


class _Held(Frozen):
    endpoint_url: str
    sealed_credentials: bytes | None


class PostgresSiemQueue:
    """Implements `ports.tenancy.receivers.SiemQueue`.

    Its statements number sign-ins, claim configurations, and read entries by their numbers.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._after = {True: _FIRST, False: _FIRST}
        self._lost_claims = LostClaims()

    async def number(self, most: int) -> int | None:
        parameters = {"namespace": locks.NAMESPACE, "lock": locks.SIGN_IN_NUMBERS, "most": most}
        return only(await ask(self._pool, _Count, _NUMBER, parameters)).count

    async def due_in(self) -> float | None:
        # The next claim goes on where the last one stopped.
        if any(after != _FIRST for after in self._after.values()):
            return 0.0
        return only(await ask(self._pool, DueRow, _DUE_IN)).due_in

    async def claim(self, limit: int, lease: timedelta, *, failing: bool) -> Sequence[ClaimedExport]:
        """Claims in a circle: after the last configuration comes the first again, so no configuration waits for ever behind others."""
        ends = 1 if self._after[failing] == _FIRST else 2
        for _ in range(_PARTS):
            parameters = {"after": self._after[failing], "limit": limit, "lease": lease, "failing": failing, "most": _LOOKED_AT}
            with self._lost_claims.lease(failing) as mine:
                rows = await ask(self._pool, _Claim, _CLAIM, {**parameters, "mine": mine})
            self._after[failing] = rows[0].last or _FIRST
            claimed = [one for row in rows if (one := row.claimed()) is not None]
            ends -= rows[0].last is None
            if claimed or ends == 0:
                return claimed
        return []

    async def entries(self, claimed: ClaimedExport, stream: Stream, after: int, most: int, most_bytes: int) -> Sequence[Numbered]:
        parameters = {"organization": claimed.organization, "export": claimed.id, "after": after, "most": most, "bytes": most_bytes}
        return await ask_for_many(self._pool, _Numbered, _ENTRIES[stream], parameters, _Numbered.numbered)

    async def hold(self, claimed: ClaimedExport, lease: timedelta) -> ExportTarget | None:
        return first_made(
            await ask(self._pool, _Held, _SIEM_QUEUE_HOLD, {**_leased(claimed), "for": lease}),
            lambda row: ExportTarget(row.endpoint_url, row.sealed_credentials),
        )

    async def received(self, claimed: ClaimedExport, stream: Stream, end: Cursor, at: datetime) -> bool:
        parameters = {**_leased(claimed), "sequence": end.sequence, "digest": end.digest, "at": at}
        return bool(await ask(self._pool, IdRow, _RECEIVED[stream], parameters))

    async def failed(self, claimed: ClaimedExport, error: str, pause: timedelta) -> None:
        await tell(self._pool, _FAILED, {**_leased(claimed), "error": storable_text(error), "pause": pause})

    async def release(self, claimed: ClaimedExport) -> None:
        await tell(self._pool, _RELEASE, _leased(claimed))


def _leased(claimed: ClaimedExport) -> dict[str, Any]:
    return {"id": claimed.id, "lease": claimed.lease}


_MOMENT: Final = "to_char({} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"

# The personal data of a sign-in, as the text that the commitment covers. When an account is deleted or the retention ends, the row goes,
# and the salt with it. When a person is forgotten, the salt is removed from the row.
_PERSONAL: Final[LiteralString] = """jsonb_build_array(
               login_events.user_id, host(login_events.address), login_events.user_agent, login_events.country, login_events.city,
               login_events.device_id
           )::text"""

# Sign-ins get their numbers after their commit. So no rollback takes a number back, and a sign-in that commits late still gets a number.
# The advisory lock lets one process number at a time, so that no process waits for rows that another one holds.
_NUMBER: Final[LiteralString] = f"""
    with ours as materialized (
             select pg_try_advisory_xact_lock(%(namespace)s, %(lock)s) as is_ours
         ),
         waiting as materialized (
             select event_id
               from sign_in_pending
              where (select is_ours from ours)
              order by event_id
              limit %(most)s
                for update skip locked
         ),
         taken as (
             delete from sign_in_pending where event_id = any (array(select event_id from waiting)) returning event_id, export_id
         ),
         told as materialized (
             select taken.export_id, login_events.id as event_id, login_events.created_at,
                    row_number() over (partition by taken.export_id order by login_events.id) as place,
                    jsonb_build_object(
                        'id', login_events.id, 'service_id', login_events.service_id, 'provider', login_events.provider,
                        'success', login_events.success, 'reason', login_events.reason, 'flagged', login_events.flagged,
                        'risk_factors', to_jsonb(login_events.risk_factors), 'created_at', {_MOMENT.format("login_events.created_at")}
                    ) as content,
                    sha256(uuid_send(coalesce(login_events.salt, gen_random_uuid())) || convert_to({_PERSONAL}, 'UTF8')) as commitment
               from taken
               join login_events on login_events.id = taken.event_id
         ),
         counts as (
             select export_id, count(*) as entries from told group by export_id
         ),
         held as (
             update siem_configurations
                set sign_ins = sign_ins + counts.entries
               from counts
              where siem_configurations.id = counts.export_id
          returning siem_configurations.id, sign_ins - counts.entries as before
         ),
         linked as (
             insert into sign_in_links (export_id, sequence, event_id, content, commitment, created_at)
             select told.export_id, held.before + told.place, told.event_id, told.content, told.commitment, told.created_at
               from told
               join held on held.id = told.export_id
         )
  select case when (select is_ours from ours) then (select count(*) from taken) end as count
"""

_DUE_IN: Final = f"""
    select {due_in("greatest(configurations.next_at, configurations.leased_until)")} as due_in
      from siem_configurations as configurations
      join organizations on organizations.id = configurations.org_id
     where configurations.is_active and organizations.status = 'active'
       and (configurations.failures > 0 or configurations.leased_until > now())
"""

_CLAIM: Final[LiteralString] = f"""
    with looked as materialized (
             select id from siem_configurations where id > %(after)s order by id limit %(most)s
         ),
         chosen as materialized (
             select free.id
               from looked
              cross join lateral (
                        select configurations.id
                          from siem_configurations as configurations
                          join organizations on organizations.id = configurations.org_id
                         where configurations.id = looked.id and configurations.is_active and organizations.status = 'active'
                           and configurations.next_at <= now()
                           and (
                                   configurations.leased_until is null
                                   or configurations.leased_until <= now()
                                   or configurations.lease = %(mine)s
                               )
                           and (configurations.failures > 0) = %(failing)s
                           and (
                                   configurations.sign_in_sequence < configurations.sign_ins
                                   or exists (
                                       select
                                         from audit_links
                                        where chain_id = configurations.org_id and sequence > configurations.audit_sequence
                                   )
                               )
                           for no key update of configurations skip locked
                    ) as free
              limit %(limit)s
         ),
         claimed as (
             update siem_configurations as configurations
                set lease = %(mine)s, leased_until = now() + %(lease)s
               from chosen
              where configurations.id = chosen.id
          returning configurations.id, org_id, provider_type, failures, batch_size, next_at, lease, audit_sequence, audit_digest,
                    sign_in_sequence, sign_in_digest
         ),
         ends as (
             select case when (select count(*) from chosen) = %(limit)s then (select max(id::text)::uuid from chosen)
                         when (select count(*) from looked) = %(most)s then (select max(id::text)::uuid from looked)
                    end as last
         )
  select ends.last, claimed.*
    from ends
    left join claimed on true
   where {AT_LEISURE}
"""

# When the entry of a number is missing or belongs to another organization, the row has the number and no entry. So the reader of the export
# sees that an entry is missing, and no organization gets another one's entries. `limit 1` changes only the plan.
_AUDIT_ENTRIES: Final[LiteralString] = f"""
    with next as (
             select links.sequence, entries.created_at as at,
                    case when entries.id is not null then jsonb_build_object(
                        'id', entries.id, 'action', entries.action, 'actor_id', entries.actor_id,
                        'impersonator_id', entries.impersonator_id, 'target_type', entries.target_type, 'target_id', entries.target_id,
                        'success', entries.success, 'details', entries.details, 'created_at', {_MOMENT.format("entries.created_at")}
                    ) end as entry,
                    encode(entries.personal_digest, 'hex') as commitment,
                    case when personal.entry_id is not null
                         then jsonb_build_array(personal.address, personal.user_agent, personal.details)::text
                    end as personal,
                    encode(personal.salt, 'hex') as salt
               from audit_links as links
               left join lateral (
                        select *
                          from audit_entries
                         where audit_entries.id = links.entry_id and audit_entries.organization_id = links.chain_id
                         limit 1
                    ) as entries on true
               left join lateral (
                        select *
                          from audit_personal
                         where audit_personal.entry_id = entries.id
                           -- Personal data of people who are being forgotten may still be stored, but is not exported.
                           and {STAYS}
                         limit 1
                    ) as personal on true
              where links.chain_id = %(organization)s and links.sequence > %(after)s
              order by links.sequence
              limit %(most)s
         ),
         weighed as (
             select *, sum(octet_length(entry::text) + coalesce(octet_length(personal), 0)) over (order by sequence) as weight,
                    row_number() over (order by sequence) as place
               from next
         )
  select sequence, at, entry, commitment, personal, salt
    from weighed
   where weight <= %(bytes)s or place = 1
   order by sequence
"""

# Sign-ins are small, so their statement has no limit in bytes.
_SIGN_IN_ENTRIES: Final[LiteralString] = f"""
    select links.sequence, links.created_at as at, links.content as entry, encode(links.commitment, 'hex') as commitment,
           case when login_events.id is not null then {_PERSONAL} end as personal,
           encode(uuid_send(login_events.salt), 'hex') as salt
      from sign_in_links as links
      left join lateral (
               select *
                 from login_events
                where login_events.id = links.event_id and login_events.salt is not null
                  and not {IS_BEING_FORGOTTEN.format(user="login_events.user_id")}
                limit 1
           ) as login_events on true
     where links.export_id = %(export)s and links.sequence > %(after)s
     order by links.sequence
     limit %(most)s
"""

_ENTRIES: Final[Mapping[Stream, LiteralString]] = {Stream.AUDIT: _AUDIT_ENTRIES, Stream.SIGN_IN: _SIGN_IN_ENTRIES}

# The update waits for a transaction that is changing the configuration, and then sees the change.
_SIEM_QUEUE_HOLD: Final[LiteralString] = f"""
    update siem_configurations as configurations
       set leased_until = now() + %(for)s
     where id = %(id)s and lease = %(lease)s and is_active and {AT_LEISURE}
       and exists (select from organizations where organizations.id = configurations.org_id and organizations.status = 'active')
 returning endpoint_url, sealed_credentials
"""


def _received(columns: LiteralString) -> LiteralString:
    return f"""
    update siem_configurations
       set {columns}, last_delivered_at = %(at)s, last_error = null, failures = 0, next_at = now()
     where id = %(id)s and lease = %(lease)s and {AT_LEISURE}
 returning id
"""


_RECEIVED: Final[Mapping[Stream, LiteralString]] = {
    Stream.AUDIT: _received("audit_sequence = %(sequence)s, audit_digest = %(digest)s"),
    Stream.SIGN_IN: _received("sign_in_sequence = %(sequence)s, sign_in_digest = %(digest)s"),
}

_FAILED: Final[LiteralString] = f"""
    update siem_configurations
       set failures = failures + 1, last_error = %(error)s, next_at = now() + %(pause)s, lease = null, leased_until = null
     where id = %(id)s and lease = %(lease)s and {AT_LEISURE}
"""

_RELEASE: Final[LiteralString] = f"""
    update siem_configurations set lease = null, leased_until = null where id = %(id)s and lease = %(lease)s and {AT_LEISURE}
"""

# The janitor deletes numbered sign-ins that the receiver has, and numbered sign-ins of deleted exports. The recursion steps from export to
# export and reads only the rows to delete, because millions of rows may wait for a receiver.
FORGET_RECEIVED: Final = """
    with recursive
         exports (id) as (
             (select export_id from sign_in_links order by export_id limit 1)
              union all
             select (select export_id from sign_in_links where export_id > exports.id order by export_id limit 1)
               from exports
              where exports.id is not null
         ),
         received as (
             select links.place
               from exports
              cross join lateral (
                        select coalesce(
                                   (select sign_in_sequence from siem_configurations where id = exports.id), 9223372036854775807
                               ) as sequence
                    ) as last
              cross join lateral (
                        select ctid as place
                          from sign_in_links
                         where export_id = exports.id and sequence <= last.sequence
                         order by sequence
                         limit %(limit)s
                           for update skip locked
                    ) as links
              limit %(limit)s
         )
  delete from sign_in_links where ctid = any (array(select place from received))
"""
