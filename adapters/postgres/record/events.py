"""Events and audit entries in PostgreSQL, written in the transaction of their cause."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString

from psycopg.types.json import Jsonb

from adapters.postgres.record.audit import PERSONAL_DIGEST
from adapters.postgres.record.changed_settings import keep_change, require_not_overtaken
from adapters.postgres.storable import storable, storable_address, storable_text
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from adapters.postgres.transaction import CHANNEL, Transaction
from core.domain.causes import causing_request
from core.domain.formats import Json
from core.domain.identifiers import AuditEntryId, UserId
from core.domain.record.audit import PLATFORM_CHAIN, kept_user_agent
from core.domain.record.event_types import TEST_EVENT, WEBHOOK_TOPIC
from core.domain.record.events import ACTING_KEY, DOCUMENT, UNDOES, ActingKey, ActingKind, Event
from core.frozen import replace
from ports.system import Clock, Ids

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
                await self._transaction.tell_along(_FAN_OUT_ONE, {name: alone[name] for name in _FANNED_OUT})
        elif published:
            told = {"events": Jsonb([self._published(event, at) for event in published])}
            await self._transaction.tell_along(_PUBLISH, told)
            if any(event.organization is not None for event in published):
                await self._transaction.tell_along(_FAN_OUT, told)
        entries = [AuditEntryId(self._ids.new()) if event.audited else None for event in events]
        audited = [_audited(event, entry, at) for event, entry in zip(events, entries, strict=True) if entry is not None]
        if audited:
            changes = [(event.actor.change, entry) for event, entry in zip(events, entries, strict=True) if event.actor.change and entry]
            for change, _ in changes[:1]:
                if change.takes_back is not None:
                    await require_not_overtaken(self._transaction, change.takes_back)
            await self._transaction.tell(_AUDIT, {"entries": Jsonb(audited)})
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
            await self._transaction.tell(_PUBLISH_EVERYWHERE, {"events": Jsonb([told]), **whose})
        if event.audited:
            entry = _audited(of_platform, AuditEntryId(self._ids.new()), at)
            await self._transaction.tell(_AUDIT_EVERYWHERE, {"entries": Jsonb([entry]), **whose})

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

_FANNED_OUT: Final = ("id", "name", "organization", "target_id", "request")

_FAN_OUT_ONE: Final[LiteralString] = fan_out(
    f"(values (%(id)s::uuid, %(name)s::text, %(organization)s::uuid, %(target_id)s::text, %(request)s::uuid)) as told ({PUBLISHED})"
)

_FAN_OUT: Final[LiteralString] = fan_out(
    "jsonb_to_recordset(%(events)s) as told (id uuid, name text, organization_id uuid, target_id text, request_id uuid)"
)

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

_PUBLISH_EVERYWHERE: Final[LiteralString] = f"""
    with published as (
             {_PUBLISH.replace("%(events)s", _IN_EVERY_LOG.format(told="%(events)s", own=IS_OWN_MEMBERSHIP))}
         returning {PUBLISHED}
         )
    {fan_out("published as told")}
"""

_AUDIT_EVERYWHERE: Final[LiteralString] = _AUDIT.replace("%(entries)s", _IN_EVERY_LOG.format(told="%(entries)s", own=IS_OWN_MEMBERSHIP))
