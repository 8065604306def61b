"""What streams of signals were told, of both queues (`signals.py`)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import listed, storable_text
from adapters.postgres.federation.signal_grants import GRANT_STANDS
from adapters.postgres.statements import OnPool, ask
from core.domain.federation.signals import SignalDelivery
from core.domain.identifiers import OrganizationId, SignalStreamId
from core.domain.record.signals import SIGNALLED_EVENTS, SignalType
from core.frozen import Frozen


class _Logged(Frozen):
    """One row of nulls when there is nothing."""

    id: UUID | None
    place: UUID
    event_name: str | None
    attempts: int
    next_at: datetime | None
    delivered_at: datetime | None
    status_code: int | None
    error: str | None
    created_at: datetime
    updated_at: datetime

    def delivery(self) -> SignalDelivery | None:
        if self.id is None:
            return None
        return SignalDelivery(
            id=self.id,
            place=self.place,
            type=SignalType.SESSION_REVOKED if self.event_name is None else SIGNALLED_EVENTS[self.event_name],
            attempts=self.attempts,
            next_at=self.next_at,
            delivered_at=self.delivered_at,
            status_code=self.status_code,
            error=self.error,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


class PostgresSignalLog(OnPool):
    """Implements `ports.federation.signals.SignalLogLookup`."""

    async def list(
        self,
        organization: OrganizationId,
        service_slug: str,
        stream: SignalStreamId,
        *,
        before: UUID | None,
        delivered: bool | None,
        limit: int,
    ) -> Sequence[SignalDelivery] | None:
        asked = {"organization": organization, "slug": storable_text(service_slug), "stream": stream}
        rows = await ask(self._pool, _Logged, _LIST, {**asked, "before": before or _LAST, "delivered": delivered, "limit": limit})
        return listed([row.delivery() for row in rows])


_LAST: Final = UUID(int=2**128 - 1)
_WANTED: Final = "(%(delivered)s::boolean is null or (delivered_at is not null) = %(delivered)s)"
_OUTCOME: Final = "delivered_at, status_code, error, created_at, updated_at"

# Each queue gives as many as the page can need, by an index. The ids of events and of notices begin with the time.
_LIST: Final[LiteralString] = f"""
    select told.*
      from services
      join signal_streams on signal_streams.service_id = services.id
      left join lateral (
               select *
                 from (
                          (select id, event_id as place, event_name, attempts, next_at, {_OUTCOME}
                             from webhook_deliveries
                            where webhook_id = signal_streams.id and kind = 'signal' and event_id < %(before)s and {_WANTED}
                            order by event_id desc
                            limit %(limit)s)
                           union all
                          (select id, id, null, attempts, tell_at, {_OUTCOME}
                             from logout_notices
                            where logout_notices.service_id = services.id and stream_id = signal_streams.id and id < %(before)s
                              and {_WANTED}
                            order by id desc
                            limit %(limit)s)
                      ) as both_queues
                order by place desc
                limit %(limit)s
           ) as told on true
     where services.org_id = %(organization)s and services.slug = %(slug)s and signal_streams.id = %(stream)s
       and {GRANT_STANDS}
     order by told.place desc
"""
