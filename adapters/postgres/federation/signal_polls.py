"""Polls of streams of signals (RFC 8936) in PostgreSQL: what waits for a stream, what its application has received, and the polls that wait
in this process.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, LiteralString
from uuid import UUID

import trio
from psycopg.types.json import Jsonb

from adapters.postgres.columns import array
from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.signal_grants import GRANT_STANDS
from adapters.postgres.federation.signals import (
    POLLED,
    SESSION_SIGNALS,
    SIGNALS,
    STREAM_JOINS,
    DueEventRow,
    DueNoticeRow,
    ended_sessions,
    given_up,
)
from adapters.postgres.record.deliveries import DeliveryTables
from adapters.postgres.statements import ask, only
from core.domain.federation.signals import LONGEST_POLL, MOST_POLLS, MOST_POLLS_OF_ORGANIZATION, DueSignal
from core.domain.identifiers import OrganizationId, SignalStreamId
from core.frozen import Frozen
from ports.federation.signals import ClaimedStream


class WaitingPolls:
    """The polls that wait in this process: one of a stream, and bounded for an organization and for the process. While nobody looks for
    what they wait for, none waits.
    """

    def __init__(self) -> None:
        self._polls: dict[SignalStreamId, trio.Event] = {}
        self._of: Counter[OrganizationId] = Counter()
        self._open = False

    def open(self) -> None:
        self._open = True

    def close(self) -> None:
        """Those that wait are answered, and no other waits."""
        self._open = False
        for something in self._polls.values():
            something.set()

    def streams(self) -> Collection[SignalStreamId]:
        return [stream for stream, something in self._polls.items() if not something.is_set()]

    def wake(self, stream: SignalStreamId) -> None:
        if stream in self._polls:
            self._polls[stream].set()

    @contextmanager
    def place(self, organization: OrganizationId, stream: SignalStreamId) -> Iterator[trio.Event | None]:
        """None without a free place."""
        if (
            not self._open
            or stream in self._polls
            or len(self._polls) >= MOST_POLLS
            or self._of[organization] >= MOST_POLLS_OF_ORGANIZATION
        ):
            yield None
            return
        self._polls[stream] = something = trio.Event()
        self._of[organization] += 1
        try:
            yield something
        finally:
            del self._polls[stream]
            self._of -= Counter({organization: 1})


class PostgresSignalPolls:
    """Implements `ports.federation.signals.SignalPolls`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._waits = WaitingPolls()
        self.longest = LONGEST_POLL.total_seconds()

    async def acknowledge(self, stream: SignalStreamId, received: Collection[UUID], refused: Mapping[UUID, str]) -> int:
        answers = [{"id": str(one), "error": None} for one in received if one not in refused]
        answers += [{"id": str(one), "error": error} for one, error in refused.items()]
        parameters = {"stream": stream, "answers": Jsonb(answers)}
        return only(await ask(self._pool, _Acknowledged, _ACKNOWLEDGE, parameters)).number

    async def waiting(self, stream: SignalStreamId, limit: int) -> Sequence[DueSignal]:
        parameters = {"receiver": stream, "limit": limit}
        events = [row.due() for row in await ask(self._pool, DueEventRow, _POLL_EVENTS, parameters)]
        ended = [row.due() for row in await ask(self._pool, DueNoticeRow, _POLL_SESSIONS, parameters)]
        return sorted([*events, *ended], key=lambda due: (due.queued_at, due.id))[:limit]

    def open(self) -> None:
        self._waits.open()

    def close(self) -> None:
        self._waits.close()

    async def wait(self, organization: OrganizationId, stream: SignalStreamId) -> bool:
        with self._waits.place(organization, stream) as something:
            if something is None:
                return False
            # What came before this poll had its place has woken nobody.
            if not await self._ready([stream]):
                with trio.move_on_after(self.longest):
                    await something.wait()
        return True

    async def look(self) -> None:
        for stream in await self._ready(self._waits.streams()):
            self._waits.wake(stream)

    async def _ready(self, streams: Collection[SignalStreamId]) -> Sequence[SignalStreamId]:
        if not streams:
            return ()
        rows = await ask(self._pool, _Ready, _READY, {"streams": array([one.hex for one in streams])})
        return [SignalStreamId(row.id) for row in rows]


class _Acknowledged(Frozen):
    number: int


class _Ready(Frozen):
    id: UUID


_ACKNOWLEDGE: Final = """
    with answers as materialized (select id, error from jsonb_to_recordset(%(answers)s) as answered (id uuid, error text)),
         of_events as (
             update webhook_deliveries as waiting
                set attempts = waiting.attempts + 1, next_at = null, updated_at = now(), error = answers.error,
                    delivered_at = case when answers.error is null then now() end
               from answers
              where waiting.webhook_id = %(stream)s and waiting.id = answers.id and waiting.next_at is not null
          returning waiting.id
         ),
         of_sessions as (
             update logout_notices as waiting
                set attempts = waiting.attempts + 1, tell_at = null, updated_at = now(), error = answers.error,
                    delivered_at = case when answers.error is null then now() end
               from answers
              where waiting.stream_id = %(stream)s and waiting.id = answers.id and waiting.tell_at is not null
          returning waiting.id
         )
  select (select count(*) from of_events) + (select count(*) from of_sessions) as number
"""


def _polling(tables: DeliveryTables[ClaimedStream, DueSignal], over: LiteralString) -> LiteralString:
    """What waits for a polled stream, the oldest first. What may not be told any more is given up before."""
    waiting: LiteralString = tables.waiting
    return f"""
    with {over}
  select deliveries.id, deliveries.attempts, {tables.due_columns}
    from signal_streams
    {STREAM_JOINS}
   cross join lateral (
             select *
               from {waiting}
              where {waiting}.{tables.of} = signal_streams.id and {waiting}.{tables.at} is not null
                and {tables.may_go} and {waiting}.id not in (select id from over)
              order by {waiting}.created_at, {waiting}.id
              limit %(limit)s
         ) as deliveries
    {tables.due_joins}
   where {POLLED}
   order by deliveries.created_at, deliveries.id
"""


_POLL_EVENTS: Final[LiteralString] = _polling(SIGNALS, given_up(POLLED, "webhook_deliveries.next_at is not null"))
_POLL_SESSIONS: Final[LiteralString] = _polling(SESSION_SIGNALS, ended_sessions(POLLED, "logout_notices.tell_at is not null"))

# One statement for all streams for which a poll waits here.
_READY: Final[LiteralString] = f"""
    select signal_streams.id
      from unnest(%(streams)s::uuid[]) as asked (id)
      join signal_streams on signal_streams.id = asked.id
      {STREAM_JOINS}
     where signal_streams.status = 'enabled' and {GRANT_STANDS}
       and (exists (select from webhook_deliveries where webhook_id = signal_streams.id and next_at is not null and {SIGNALS.may_go})
            or exists (select from logout_notices where stream_id = signal_streams.id and tell_at is not null and {SESSION_SIGNALS.may_go}))
"""
