"""Events and audit entries in PostgreSQL, written in the transaction of their cause."""

from datetime import datetime
from typing import Final

from psycopg.types.json import Jsonb

from adapters.postgres.addresses import storable_address
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.transaction import Transaction
from core.domain.events import Event
from core.domain.identifiers import AuditEntryId
from ports.clock import Clock
from ports.ids import Ids

LONGEST_USER_AGENT: Final = 512


class EventRows:
    def __init__(self, transaction: Transaction, ids: Ids, clock: Clock) -> None:
        self._transaction = transaction
        self._ids = ids
        self._clock = clock

    async def record(self, event: Event) -> AuditEntryId | None:
        at = self._clock.now()
        details = Jsonb(storable(event.details))
        if event.published:
            await self._publish(event, details, at)
        return await self._audit(event, details, at) if event.audited else None

    async def _publish(self, event: Event, details: Jsonb, at: datetime) -> None:
        await self._transaction.tell(
            _PUBLISH,
            {
                "id": self._ids.new(),
                "name": event.name,
                "organization": event.organization,
                "actor": event.actor.user,
                "impersonator": event.actor.impersonator,
                "target_type": event.target.type,
                "target_id": storable_text(event.target.id),
                "details": details,
                "at": at,
            },
        )

    async def _audit(self, event: Event, details: Jsonb, at: datetime) -> AuditEntryId:
        entry = AuditEntryId(self._ids.new())
        user_agent = event.actor.user_agent
        await self._transaction.tell(
            _AUDIT,
            {
                "id": entry,
                "organization": event.organization,
                "actor": event.actor.user,
                "impersonator": event.actor.impersonator,
                "action": event.name,
                "target_type": event.target.type,
                "target_id": storable_text(event.target.id),
                "address": storable_address(event.actor.address),
                "user_agent": None if user_agent is None else storable_text(user_agent[:LONGEST_USER_AGENT]),
                "success": event.success,
                "details": details,
                "at": at,
            },
        )
        return entry


_PUBLISH: Final = """
    insert into events (id, name, organization_id, actor_id, impersonator_id, target_type, target_id, details, occurred_at)
    values (%(id)s, %(name)s, %(organization)s, %(actor)s, %(impersonator)s, %(target_type)s, %(target_id)s, %(details)s, %(at)s)
"""

_AUDIT: Final = """
    insert into audit_entries (id, organization_id, actor_id, impersonator_id, action, target_type, target_id, address, user_agent,
                               success, details, created_at)
    values (%(id)s, %(organization)s, %(actor)s, %(impersonator)s, %(action)s, %(target_type)s, %(target_id)s, %(address)s, %(user_agent)s,
            %(success)s, %(details)s, %(at)s)
"""
