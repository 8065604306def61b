"""Events and audit entries in the transaction of their cause, changed settings, and the rows that follow from a request, in PostgreSQL."""

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import CountRow, storable, storable_address, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.jobs import sealing_context
from adapters.postgres.record.audit import PERSONAL_DIGEST
from adapters.postgres.statements import CHANNEL, NEW_ID, OnPool, Transaction, ask
from adapters.postgres.ties import IS_OWN_MEMBERSHIP, IS_OWN_USE, is_own_member
from core.domain.causes import causing_request
from core.domain.formats import Json
from core.domain.identifiers import AuditEntryId, ChangedSettingId, JobId, OrganizationId, UserId, first_id
from core.domain.record.audit import AUDIT_TOPIC, PLATFORM_CHAIN, kept_user_agent
from core.domain.record.changed_settings import MOST_LISTED, ChangedSetting, FormTexts, SettingChange, SettingsOvertaken, TakenBack
from core.domain.record.event_types import TEST_EVENT, WEBHOOK_TOPIC
from core.domain.record.events import ACTING_KEY, DOCUMENT, UNDOES, ActingKey, ActingKind, Event
from core.domain.record.signals import DROPPED_EVENT, PURGED_EVENT, SIGNAL_TOPIC, SIGNALLED_EVENTS, VERIFIED_EVENT, SignalType
from core.domain.record.stories import MOST_ROWS, SoughtStory, Story, StoryRow
from core.frozen import Frozen, replace
from ports.crypto import CannotOpen, KeyRing
from ports.system import Clock, Ids


class _ChangedSetting(Frozen):
    id: UUID
    entry_id: UUID
    section: str
    before: dict[str, Any]
    after: dict[str, Any]
    changed_at: datetime
    others: int
    earlier: int

    def changed(self) -> ChangedSetting:
        return ChangedSetting(
            ChangedSettingId(self.id),
            AuditEntryId(self.entry_id),
            self.section,
            self.before,
            self.after,
            self.changed_at,
            self.others,
            self.earlier,
        )


class PostgresChangedSettings(OnPool):
    """Implements `ports.record.ChangedSettings`."""

    async def list(self, organization: OrganizationId | None, place: str, thing: str | None, since: datetime) -> Sequence[ChangedSetting]:
        parameters = {
            "organization": organization,
            "place": place,
            "thing": thing,
            "since": since,
            "most": MOST_LISTED,
            "request": causing_request(),
        }
        return [row.changed() for row in await ask(self._pool, _ChangedSetting, _LIST, parameters)]


async def require_not_overtaken(transaction: Transaction, taken: TakenBack) -> None:
    """The thing is written in this transaction, so whoever else changes it has committed before, with an entry, or waits. Raises
    `SettingsOvertaken`.
    """
    rows = await transaction.ask(CountRow, _COUNT, {"entry": taken.entry, "request": causing_request()})
    if not rows or rows[0].count != taken.others:
        raise SettingsOvertaken
    await transaction.tell("delete from changed_settings where entry_id = %(entry)s", {"entry": taken.entry})


async def keep_change(transaction: Transaction, change: SettingChange, entry: AuditEntryId) -> None:
    """Keeps the change beside its audit entry. Of several entries of one change, the first counts."""
    await transaction.tell(
        _KEEP,
        {
            "id": change.id,
            "entry": entry,
            "place": change.place,
            "section": change.section,
            "before": _stored(change.before),
            "after": _stored(change.after),
            "request": causing_request(),
        },
    )


def _stored(texts: FormTexts) -> Jsonb:
    return Jsonb(storable({name: text if isinstance(text, str) else list(text) for name, text in texts.items()}))


# The other entries about the thing of the entry `changed`, from ten minutes before it on. The request that asks is left out, since it may
# write several entries.
_OTHERS: Final[LiteralString] = """(
               select count(*)
                 from audit_entries as others
                where (others.organization_id = changed.organization_id
                       or others.organization_id is null and changed.organization_id is null)
                  and others.target_type = changed.target_type and others.target_id = changed.target_id
                  and others.created_at >= changed.created_at - interval '10 minutes'
                  and others.id <> changed.id and others.request_id is distinct from %(request)s
           )"""

_COUNT: Final[LiteralString] = f"select {_OTHERS} as count from audit_entries as changed where changed.id = %(entry)s"

_KEEP: Final[LiteralString] = f"""
    insert into changed_settings (id, entry_id, organization_id, place, section, before, after, earlier, changed_at)
    select %(id)s, changed.id, changed.organization_id, %(place)s, %(section)s, %(before)s, %(after)s, {_OTHERS}, changed.created_at
      from audit_entries as changed
     where changed.id = %(entry)s
        on conflict (id) do nothing
"""

# The name of a thing that is gone may be given again. Whatever is made has an entry, so entries know the thing that is there now by this
# id. If they do not, entries of this type name something else, and the place alone says which thing it is.
_LIST: Final[LiteralString] = f"""
    select kept.id, kept.entry_id, kept.section, kept.before, kept.after, kept.changed_at, kept.earlier, {_OTHERS} as others
      from changed_settings as kept
      join audit_entries as changed on changed.id = kept.entry_id
     where kept.place = %(place)s and kept.changed_at > %(since)s
       and (%(organization)s::uuid is null or kept.organization_id = %(organization)s)
       and (%(thing)s::text is null or changed.target_id = %(thing)s or not exists (
               select from audit_entries as about
                where (about.organization_id = changed.organization_id
                       or about.organization_id is null and changed.organization_id is null)
                  and about.target_type = changed.target_type and about.target_id = %(thing)s))
     order by kept.changed_at desc, kept.id desc
     limit %(most)s
"""


_SALT_BYTES: Final = 16


class EventRows:
    def __init__(self, transaction: Transaction, ids: Ids, clock: Clock) -> None:
        self._transaction = transaction
        self._ids = ids
        self._clock = clock

    async def record(self, event: Event) -> AuditEntryId | None:
        (entry,) = await self.record_all([event])
        return entry

    async def record_all(self, events: Sequence[Event]) -> Sequence[AuditEntryId | None]:
        """Returns the audit entries, one for each event in turn: None for an event that is not audited. The number of statements does not
        grow with the number of events.
        """
        at = self._clock.now()
        published = [event for event in events if event.published]
        if len(published) == 1:
            alone = self._alone(published[0], at)
            await self._transaction.tell_along(_PUBLISH_ONE, alone)
            if published[0].organization is not None:
                await self._transaction.tell_along(
                    _TO_RECEIVERS_ONE[published[0].name in SIGNALLED_EVENTS], {name: alone[name] for name in _FANNED_OUT}
                )
        elif published:
            told = {"events": Jsonb([self._published(event, at) for event in published])}
            await self._transaction.tell_along(_PUBLISH, told)
            if any(event.organization is not None for event in published):
                is_told = any(event.name in SIGNALLED_EVENTS for event in published)
                await self._transaction.tell_along(_TO_RECEIVERS[is_told], told)
        entries = [AuditEntryId(self._ids.new()) if event.audited else None for event in events]
        audited = [_audited(event, entry, at) for event, entry in zip(events, entries, strict=True) if entry is not None]
        if audited:
            changes = [(event.actor.change, entry) for event, entry in zip(events, entries, strict=True) if event.actor.change and entry]
            for change, _ in changes[:1]:
                if change.takes_back is not None:
                    await require_not_overtaken(self._transaction, change.takes_back)
            await self._transaction.tell(_AUDIT, {"entries": Jsonb(audited)})
            self._transaction.ring_here(AUDIT_TOPIC)
            for change, entry in changes[:1]:
                await keep_change(self._transaction, change, entry)
        return entries

    async def record_in_every_log(self, event: Event, person: UserId, *, listed: bool) -> None:
        """Runs as many statements as a record in one log needs, because the database finds the logs itself."""
        at = self._clock.now()
        of_platform = replace(event, organization=None)
        whose = {"person": person, "here": event.organization, "listed": listed}
        if event.published:
            told = self._published(of_platform, at)
            await self._transaction.tell(_PUBLISH_EVERYWHERE[event.name in SIGNALLED_EVENTS], {"events": Jsonb([told]), **whose})
        if event.audited:
            entry = _audited(of_platform, AuditEntryId(self._ids.new()), at)
            await self._transaction.tell(_AUDIT_EVERYWHERE, {"entries": Jsonb([entry]), **whose})
            self._transaction.ring_here(AUDIT_TOPIC)

    def _published(self, event: Event, at: datetime) -> Mapping[str, Json]:
        return {
            "id": str(self._ids.new()),
            "name": event.name,
            **_whom(event),
            "actor_id": _text(event.actor.user),
            "details": storable(event.known_details),
            "personal": storable(event.known_personal),
            "occurred_at": at.isoformat(),
            "request_id": _text(causing_request()),
        }

    def _alone(self, event: Event, at: datetime) -> Mapping[str, object]:
        """The parameters of a single event."""
        return {
            "id": self._ids.new(),
            "name": event.name,
            "organization": event.organization,
            "actor": event.actor.user,
            "impersonator": event.actor.impersonator,
            "target_type": event.target.type,
            "target_id": storable_text(event.target.id),
            "details": Jsonb(storable(event.known_details)),
            "personal": Jsonb(storable(event.known_personal)) if event.known_personal else None,
            "at": at,
            "request": causing_request(),
        }


def _audited(event: Event, entry: AuditEntryId, at: datetime) -> Mapping[str, Json]:
    address = storable_address(event.actor.address)
    user_agent = kept_user_agent(event.actor)
    key = event.actor.key
    return {
        "id": str(entry),
        "chain_id": str(event.organization or PLATFORM_CHAIN),
        "action": event.name,
        **_whom(event),
        "actor_id": _text(event.actor.user if key is None else key.id),
        "success": event.success,
        "details": storable(_details(event)),
        "created_at": at.isoformat(),
        "address": None if address is None else str(address),
        "user_agent": None if user_agent is None else storable_text(user_agent),
        "personal": storable(event.known_personal),
        "person_id": _text(event.actor.user or event.person),
        "request_id": _text(causing_request()),
        "salt": f"\\x{secrets.token_hex(_SALT_BYTES)}",
    }


def _details(event: Event) -> Mapping[str, Json]:
    """The details of the entry, with what it says of the actor besides the actor's id."""
    actor = event.actor
    taken = None if actor.change is None else actor.change.takes_back
    if actor.key is None and not actor.document and taken is None:
        return event.known_details
    key = {} if actor.key is None else {ACTING_KEY: _acting(actor.key)}
    document = {DOCUMENT: actor.document} if actor.document else {}
    return {**event.known_details, **key, **document, **({} if taken is None else {UNDOES: str(taken.entry)})}


def _acting(key: ActingKey) -> Mapping[str, Json]:
    """The value for an API key has no `kind`: it is the same as before other kinds of keys existed."""
    kind = {} if key.kind is ActingKind.API_KEY else {"kind": key.kind.value}
    return {"name": key.name, "prefix": key.prefix, **kind}


def _whom(event: Event) -> Mapping[str, Json]:
    return {
        "organization_id": _text(event.organization),
        "impersonator_id": _text(event.actor.impersonator),
        "target_type": event.target.type,
        "target_id": storable_text(event.target.id),
    }


def _text(identifier: object) -> str | None:
    return None if identifier is None else str(identifier)


# Most use cases record one event, so its values are parameters of their own. Reading them out of jsonb costs PostgreSQL as much as the row.
_PUBLISH_ONE: Final = """
    insert into events (id, name, organization_id, actor_id, impersonator_id, target_type, target_id, details, personal, occurred_at,
                        request_id)
    values (%(id)s, %(name)s, %(organization)s, %(actor)s, %(impersonator)s, %(target_type)s, %(target_id)s, %(details)s, %(personal)s,
            %(at)s, %(request)s)
"""

# Several events in one parameter: sending one value costs less than sending a list for each column.
_PUBLISH: Final[LiteralString] = """
    insert into events (id, name, organization_id, actor_id, impersonator_id, target_type, target_id, details, personal, occurred_at,
                        request_id)
    select id, name, organization_id, actor_id, impersonator_id, target_type, target_id, details, nullif(personal, '{}'), occurred_at,
           request_id
      from jsonb_to_recordset(%(events)s)
        as told (id uuid, name text, organization_id uuid, actor_id uuid, impersonator_id uuid, target_type text, target_id text,
                 details jsonb, personal jsonb, occurred_at timestamptz, request_id uuid)
"""


def signalled(source: LiteralString) -> LiteralString:
    """As `fan_out`, and adds a delivery for each stream that hears of the event by a signal: those of the organization's applications that
    the person uses by their own act, if the person is a member by their own act, too; or the stream that the event is about; or all that
    pause, or go on, with the organization.
    """
    return f"""
    insert into webhook_deliveries (id, webhook_id, event_id, event_name, next_at, created_at, updated_at, request_id, kind)
    select (left(told.id::text, 15) || substr(gen_random_uuid()::text, 16))::uuid, webhooks.id, told.id, told.name, now(), now(), now(),
           told.request_id, 'webhook'
      from {source}
      join webhooks on webhooks.org_id = told.organization_id
     where webhooks.is_active and told.name = any (webhooks.events)
     union all
    select (left(told.id::text, 15) || substr(gen_random_uuid()::text, 16))::uuid, streams.id, told.id, told.name, now(), now(), now(),
           told.request_id, 'signal'
      from {source}
      join (values {_SIGNALLED_AS}) as kinds (event, type) on kinds.event = told.name
      join organizations on organizations.id = told.organization_id
       and (organizations.status = 'active' or kinds.type = '{SignalType.STREAM_UPDATED}')
      join services on services.org_id = organizations.id
      join signal_settings on signal_settings.service_id = services.id
      join signal_streams as streams on streams.service_id = services.id and streams.status <> 'disabled'
     where case
               when told.name in ('{VERIFIED_EVENT}', '{DROPPED_EVENT}') then streams.id::text = told.target_id
               when kinds.type = '{SignalType.STREAM_UPDATED}' then streams.status = 'enabled'
               else kinds.type = any (signal_settings.events) and kinds.type = any (streams.events)
                and exists (
                        select from service_users
                         where service_users.service_id = services.id and service_users.user_id = told.target_id::uuid and {IS_OWN_USE}
                    )
                and (told.name = '{PURGED_EVENT}' or {is_own_member("organizations.id", "told.target_id::uuid")})
           end
 returning pg_notify('{CHANNEL}', case kind when 'signal' then '{SIGNAL_TOPIC}' else '{WEBHOOK_TOPIC}' end)
    """


_SIGNALLED_AS: Final[LiteralString] = ", ".join(f"('{name}', '{kind}')" for name, kind in SIGNALLED_EVENTS.items())


def fan_out(source: LiteralString) -> LiteralString:
    """Adds a delivery for each webhook of the organization that subscribes to the event. This belongs to the statement that writes the
    event, so no process has to find out later which events were published in which order of commits. Dispatchers are notified only if there
    is a delivery for them, because a notification makes commits wait for each other. PostgreSQL sends several equal notifications of one
    transaction as one.

    `source` is a table `told` of events, with the columns of `PUBLISHED`. The new ids begin with the time of the event's id.
    """
    return f"""
    insert into webhook_deliveries (id, webhook_id, event_id, event_name, next_at, created_at, updated_at, request_id)
    select (left(told.id::text, 15) || substr(gen_random_uuid()::text, 16))::uuid, webhooks.id, told.id, told.name, now(), now(), now(),
           told.request_id
      from {source}
      join webhooks on webhooks.org_id = told.organization_id
     where webhooks.is_active
       and (told.name = any (webhooks.events) or told.name = '{TEST_EVENT}' and webhooks.id::text = told.target_id)
 returning pg_notify('{CHANNEL}', '{WEBHOOK_TOPIC}')
    """


PUBLISHED: Final = "id, name, organization_id, target_id, request_id"

# For the statements that end an account, before they end its uses. The parameters: `user`; `target`, the same id as text.
PURGED: Final[LiteralString] = f"""
    with hearing as (
             select distinct services.org_id
               from service_users
               join services on services.id = service_users.service_id
               join organizations on organizations.id = services.org_id and organizations.status = 'active'
               join signal_settings on signal_settings.service_id = services.id
               join signal_streams on signal_streams.service_id = services.id and signal_streams.status <> 'disabled'
              where service_users.user_id = %(user)s and {IS_OWN_USE}
                and '{SignalType.ACCOUNT_PURGED}' = any (signal_settings.events)
                and '{SignalType.ACCOUNT_PURGED}' = any (signal_streams.events)
         ),
         purged as (
             insert into events (id, name, organization_id, target_type, target_id, details, occurred_at)
             select {NEW_ID}, '{PURGED_EVENT}', hearing.org_id, 'user', %(target)s::text, '{{}}'::jsonb, now()
               from hearing
          returning {PUBLISHED}
         )
    {signalled("purged as told")}
"""

_FANNED_OUT: Final = ("id", "name", "organization", "target_id", "request")

_ONE: Final[LiteralString] = (
    f"(values (%(id)s::uuid, %(name)s::text, %(organization)s::uuid, %(target_id)s::text, %(request)s::uuid)) as told ({PUBLISHED})"
)
_SEVERAL: Final = "jsonb_to_recordset(%(events)s) as told (id uuid, name text, organization_id uuid, target_id text, request_id uuid)"

# To webhooks; and to streams as well where signals tell the event.
_TO_RECEIVERS_ONE: Final[Mapping[bool, LiteralString]] = {False: fan_out(_ONE), True: signalled(_ONE)}
_TO_RECEIVERS: Final[Mapping[bool, LiteralString]] = {False: fan_out(_SEVERAL), True: signalled(_SEVERAL)}

# Adds the entries, their separate personal parts, and their places in the queue of entries that wait to be linked.
_AUDIT: Final[LiteralString] = f"""
    with told as (
             select *, (address is not null or user_agent is not null or personal <> '{{}}') as is_personal
               from jsonb_to_recordset(%(entries)s)
                 as told (id uuid, chain_id uuid, action text, organization_id uuid, actor_id uuid, impersonator_id uuid, target_type text,
                          target_id text, success boolean, details jsonb, created_at timestamptz, address inet, user_agent text,
                          personal jsonb, person_id uuid, salt bytea, request_id uuid)
         ),
         entries as (
             insert into audit_entries (id, organization_id, actor_id, impersonator_id, action, target_type, target_id, success, details,
                                        personal_digest, created_at, request_id)
             select id, organization_id, actor_id, impersonator_id, action, target_type, target_id, success, details,
                    case when is_personal then {PERSONAL_DIGEST.format(details="personal")} end, created_at, request_id
               from told
         ),
         apart as (
             insert into audit_personal (entry_id, actor_id, address, user_agent, details, salt)
             select id, person_id, address, user_agent, personal, salt
               from told
              where is_personal
         )
  insert into audit_pending (entry_id, chain_id)
  select id, chain_id from told
"""

# An event about a person, and a copy for each organization that the person belongs to by their own act, or in which the event happened. The
# other organizations learn that the event happened, but not from which address; none learns the personal part. An organization that merely
# lists the person gets no copy, except with `listed`. A copy's id begins with the time of the original id.
_IN_EVERY_LOG: Final[LiteralString] = """
    (
        select {told}::jsonb || coalesce(
                   jsonb_agg(
                       given.told
                    || jsonb_build_object(
                           'id', left(given.told ->> 'id', 15) || substr(gen_random_uuid()::text, 16),
                           'organization_id', organizations.id,
                           'chain_id', organizations.id,
                           'personal', '{{}}'::jsonb,
                           'salt', chr(92) || 'x' || replace(gen_random_uuid()::text, '-', '')
                       )
                    || case when organizations.id = %(here)s then '{{}}' else '{{"address": null, "user_agent": null}}' end::jsonb
                    order by organizations.id
                   ),
                   '[]'
               )
          from jsonb_array_elements({told}::jsonb) as given (told)
          join memberships on memberships.user_id = %(person)s and ({own} or %(listed)s or memberships.org_id = %(here)s)
          join organizations on organizations.id = memberships.org_id
    )
"""

_PUBLISHED_EVERYWHERE: Final[LiteralString] = f"""
    with published as (
             {_PUBLISH.replace("%(events)s", _IN_EVERY_LOG.format(told="%(events)s", own=IS_OWN_MEMBERSHIP))}
         returning {PUBLISHED}
         )
"""
_PUBLISH_EVERYWHERE: Final[Mapping[bool, LiteralString]] = {
    False: _PUBLISHED_EVERYWHERE + fan_out("published as told"),
    True: _PUBLISHED_EVERYWHERE + signalled("published as told"),
}

_AUDIT_EVERYWHERE: Final[LiteralString] = _AUDIT.replace("%(entries)s", _IN_EVERY_LOG.format(told="%(entries)s", own=IS_OWN_MEMBERSHIP))


def _row(
    keyring: KeyRing,
    /,
    *,
    id: UUID,  # noqa: A002 - the column's name
    sealed_payload: bytes | None,
    **columns: Any,
) -> StoryRow:
    return StoryRow(id=id, recipient=None if sealed_payload is None else _recipient(keyring, id, sealed_payload), **columns)


def _recipient(keyring: KeyRing, job: UUID, sealed: bytes) -> str | None:
    """The domain that a mail goes to. Nothing else of the mail is told: it may hold a link that lets its holder in."""
    try:
        payload: Mapping[str, object] = json.loads(keyring.open(sealed, sealing_context(JobId(job))))
    except (CannotOpen, ValueError):
        return None
    address = payload.get("to", payload.get("email"))
    return f"***@{address.rpartition('@')[2]}" if isinstance(address, str) else None


class PostgresStories:
    """Implements `ports.record.Stories`.

    It reads all tables whose rows name a request. No table has an index of requests, because such an index would cost every write. The rows
    of a moment are found by their IDs, which begin with the time, and then by the request.
    """

    def __init__(self, pool: Pool, keyring: KeyRing) -> None:
        self._pool = pool
        self._keyring = keyring

    async def find(self, sought: SoughtStory) -> Story:
        parameters = {
            "request": sought.request,
            "tail": sought.tail,
            "since": sought.since,
            "until": sought.until,
            "first": first_id(sought.since),
            "last": first_id(sought.until),
            "limit": MOST_ROWS + 1,
        }
        rows = await ask(self._pool, partial(_row, self._keyring), _FIND, parameters)
        return Story(sought, rows[:MOST_ROWS], is_whole=len(rows) <= MOST_ROWS)


_OF_REQUEST: Final = "(request_id = %(request)s::uuid or right(request_id::text, 22) = %(tail)s)"
_BY_ID: Final[LiteralString] = f"id >= %(first)s::uuid and id < %(last)s::uuid and {_OF_REQUEST}"

# A delivery that a replay queues has an id with the time of its old event, so deliveries are found by their own time. For an audit entry
# and a sign-in, the state tells how far its export to the organization's SIEM has come.
_FIND: Final[LiteralString] = f"""
    with entries as materialized (
             select * from audit_entries where {_BY_ID} order by id limit %(limit)s
         ),
         published as materialized (
             select * from events where {_BY_ID} order by id limit %(limit)s
         ),
         sign_ins as materialized (
             select * from login_events where {_BY_ID} order by id limit %(limit)s
         ),
         deliveries as materialized (
             select *
               from webhook_deliveries
              where created_at >= %(since)s and created_at < %(until)s and {_OF_REQUEST}
              order by created_at, id
              limit %(limit)s
         ),
         queued as materialized (
             select * from jobs where {_BY_ID} order by id limit %(limit)s
         ),
         told as (
             select entries.created_at as at, 'audit entry' as noun, 1 as place, entries.id, entries.request_id, entries.organization_id,
                    entries.actor_id, concat_ws(' ', entries.action, entries.target_type, entries.target_id,
                              'agent ' || (entries.details ->> 'agent')) as what,
                    concat_ws(', ', case when not entries.success then 'failed' end,
                              coalesce('number ' || links.sequence || ' of its log', 'not linked yet'),
                              case when siem.id is null then null
                                   when links.sequence <= siem.audit_sequence then 'the SIEM has it'
                                   else 'waits for the SIEM'
                              end) as state,
                    null::integer as attempts, null::timestamptz as next_at, null::text as error, null::bytea as sealed_payload
               from entries
               left join audit_links as links on links.entry_id = entries.id
               left join siem_configurations as siem on siem.org_id = entries.organization_id and siem.is_active
          union all
             select occurred_at, 'event', 2, id, request_id, organization_id, actor_id,
                    concat_ws(' ', name, target_type, target_id, 'agent ' || (details ->> 'agent')),
                    'published', null, null, null, null
               from published
          union all
             select sign_ins.created_at, 'sign-in', 0, sign_ins.id, sign_ins.request_id, sign_ins.organization_id,
                    case when sign_ins.success then sign_ins.user_id end,
                    concat_ws(' ', sign_ins.provider, 'user ' || sign_ins.user_id, 'service ' || sign_ins.service_id),
                    concat_ws(', ', case when sign_ins.success then 'succeeded' else 'failed: ' || coalesce(sign_ins.reason, 'unknown') end,
                              case when sign_ins.flagged then 'flagged' end,
                              case when exists (select from sign_in_pending where event_id = sign_ins.id)
                                   then 'waits for its number for the SIEM'
                              end),
                    null, null, null, null
               from sign_ins
          union all
             select deliveries.updated_at, 'delivery', 3, deliveries.id, deliveries.request_id, webhooks.org_id, null,
                    concat_ws(' ', deliveries.event_name, case deliveries.kind when 'signal' then 'to stream' else 'to webhook' end,
                              deliveries.webhook_id),
                    concat_ws(', ', case when deliveries.delivered_at is not null then 'delivered'
                                         when deliveries.next_at is not null then 'waiting'
                                         else 'given up'
                                    end,
                              'answered ' || deliveries.status_code),
                    deliveries.attempts, deliveries.next_at, deliveries.error, null
               from deliveries
               left join webhooks on webhooks.id = deliveries.webhook_id
          union all
             select created_at, case when is_mail then 'mail' else 'job' end, 4, id, request_id, null, null, kind, state, attempts,
                    case when state = 'waiting' then run_at end, last_error, case when is_mail then sealed_payload end
               from queued
              cross join lateral (select kind in ('mail', 'mail.organization', 'account.mail') as is_mail) as kinds
         )
  select told.at, told.noun, told.id, told.request_id as request, coalesce(organizations.slug, told.organization_id::text) as organization,
         told.actor_id as actor, told.what, told.state, told.attempts, told.next_at, told.error, told.sealed_payload
    from told
    left join organizations on organizations.id = told.organization_id
   order by told.at, told.place, told.id
   limit %(limit)s
"""
