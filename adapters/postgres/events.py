"""Events and audit entries in PostgreSQL, written in the transaction of their cause."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from psycopg.types.json import Jsonb

from adapters.postgres.addresses import storable_address
from adapters.postgres.audit import PERSONAL_DIGEST
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.transaction import Transaction
from core.domain.audit import kept_user_agent
from core.domain.audit_chains import PLATFORM_CHAIN
from core.domain.events import Event
from core.domain.identifiers import AuditEntryId
from core.domain.json import Json
from ports.clock import Clock
from ports.ids import Ids

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
        """The audit entries, for each event in turn: None for one that is not audited. Two statements, however many there are."""
        at = self._clock.now()
        published = [self._published(event, at) for event in events if event.published]
        if published:
            await self._transaction.tell(_PUBLISH, {"events": Jsonb(published)})
        entries = [AuditEntryId(self._ids.new()) if event.audited else None for event in events]
        audited = [_audited(event, entry, at) for event, entry in zip(events, entries, strict=True) if entry is not None]
        if audited:
            await self._transaction.tell(_AUDIT, {"entries": Jsonb(audited)})
        return entries

    def _published(self, event: Event, at: datetime) -> Mapping[str, Json]:
        return {
            "id": str(self._ids.new()),
            "name": event.name,
            **_whom(event),
            "details": storable({**event.details, **event.personal}),
            "occurred_at": at.isoformat(),
        }


def _audited(event: Event, entry: AuditEntryId, at: datetime) -> Mapping[str, Json]:
    address = storable_address(event.actor.address)
    user_agent = kept_user_agent(event.actor)
    return {
        "id": str(entry),
        "chain_id": str(event.organization or PLATFORM_CHAIN),
        "action": event.name,
        **_whom(event),
        "success": event.success,
        "details": storable(event.details),
        "created_at": at.isoformat(),
        "address": None if address is None else str(address),
        "user_agent": None if user_agent is None else storable_text(user_agent),
        "personal": storable(event.personal),
        "person_id": _text(event.actor.user or event.person),
        "salt": f"\\x{secrets.token_hex(_SALT_BYTES)}",
    }


def _whom(event: Event) -> Mapping[str, Json]:
    return {
        "organization_id": _text(event.organization),
        "actor_id": _text(event.actor.user),
        "impersonator_id": _text(event.actor.impersonator),
        "target_type": event.target.type,
        "target_id": storable_text(event.target.id),
    }


def _text(identifier: object) -> str | None:
    return None if identifier is None else str(identifier)


# All events as one parameter: one value to send costs less than a list for each column, and one event takes the same way as a thousand.
_PUBLISH: Final = """
    insert into events (id, name, organization_id, actor_id, impersonator_id, target_type, target_id, details, occurred_at)
    select id, name, organization_id, actor_id, impersonator_id, target_type, target_id, details, occurred_at
      from jsonb_to_recordset(%(events)s)
        as told (id uuid, name text, organization_id uuid, actor_id uuid, impersonator_id uuid, target_type text, target_id text,
                 details jsonb, occurred_at timestamptz)
"""

# The entries, what is set apart of them, and their places in the queue of those that are to be linked.
_AUDIT: Final = f"""
    with told as (
             select *, (address is not null or user_agent is not null or personal <> '{{}}') as is_personal
               from jsonb_to_recordset(%(entries)s)
                 as told (id uuid, chain_id uuid, action text, organization_id uuid, actor_id uuid, impersonator_id uuid, target_type text,
                          target_id text, success boolean, details jsonb, created_at timestamptz, address inet, user_agent text,
                          personal jsonb, person_id uuid, salt bytea)
         ),
         entries as (
             insert into audit_entries (id, organization_id, actor_id, impersonator_id, action, target_type, target_id, success, details,
                                        personal_digest, created_at)
             select id, organization_id, actor_id, impersonator_id, action, target_type, target_id, success, details,
                    case when is_personal then {PERSONAL_DIGEST.format(details="personal")} end, created_at
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
