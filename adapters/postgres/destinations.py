"""Queues whose unit of claim is the destination: the statements that take, settle and give back, for any table of what waits and of whom it
waits for.

A table of what waits has `next_at` (null: nothing more is done), `attempts`, `delivered_at`, `status_code`, `error` and `updated_at`. Of
its rows that wait, an index begins with the destination and `next_at`. A table of destinations has `failing_since`, `rests_until`, `lease`
and `leased_until`.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Generic, LiteralString, Protocol, TypeVar
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.arrays import array
from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable_text
from core.domain.tenancy.webhook_deliveries import Outcome
from core.frozen import Frozen

# Destinations with something pending that one claim looks at. The next one goes on where it stopped.
_LOOKED_AT: Final = 500
_FIRST: Final = UUID(int=0)

# When the server crashes, the outcomes of its last moments are lost, and what they are about is sent again, as after any crash. So nobody
# waits for the disk: that would take longer than the attempt.
AT_LEISURE: Final = "set_config('synchronous_commit', 'off', true) = 'off'"


class Queue(Frozen, kw_only=True):
    """`waiting`: the table of what waits; `of`: its column for the destination. `destinations`: the table of those; `key`: its column for
    the same. `may_be_called` is a condition on the destination and what `joins` finds for it.
    """

    waiting: LiteralString
    of: LiteralString
    destinations: LiteralString
    key: LiteralString
    joins: LiteralString
    may_be_called: LiteralString


class ClaimRow(Protocol):
    """One row, with `lease` null, when nothing was claimed. `last` is where the claim stopped: null at the end of the round."""

    @property
    def last(self) -> UUID | None: ...
    @property
    def id(self) -> UUID | None: ...
    @property
    def lease(self) -> UUID | None: ...


R = TypeVar("R", bound=ClaimRow)


class Rounds(Generic[R]):
    """Claims go round: after the last destination comes the first again, so none waits for ever behind others. Of those of an organization
    that may have no more of them now, the next claim takes the ones behind.
    """

    def __init__(self, pool: Pool, row: type[R], statement: LiteralString) -> None:
        self._pool = pool
        self._row = row
        self._statement: LiteralString = statement
        self._after = {True: _FIRST, False: _FIRST}
        # The one that was claimed last.
        self._turn = {True: _FIRST, False: _FIRST}

    async def claim(self, limit: int, lease: timedelta, *, failing: bool, busy: Sequence[UUID]) -> Sequence[R]:
        ends = 1 if self._after[failing] == _FIRST else 2
        while True:
            parameters = {
                "after": self._after[failing],
                "turn": self._turn[failing],
                "limit": limit,
                "lease": lease,
                "failing": failing,
                "busy": array([one.hex for one in busy]),
                "most": _LOOKED_AT,
            }
            rows = await ask(self._pool, self._row, self._statement, parameters)
            self._after[failing] = rows[0].last or _FIRST
            claimed = [row for row in rows if row.lease is not None]
            ids = [row.id for row in claimed if row.id is not None]
            self._turn[failing] = max([one for one in ids if one <= self._turn[failing]] or ids, default=self._turn[failing])
            ends -= rows[0].last is None
            if claimed or ends == 0:
                return claimed


def claiming(queue: Queue, columns: LiteralString, joins: LiteralString = "") -> LiteralString:
    """Hops from destination to destination through the index, and reads the earliest row of each. So neither a long queue for one of them
    nor a crowd of later rows slows it down. Where several organizations want what is left, none has two before another has one. `columns`
    are told of each `claimed` destination, with what `joins` finds for it.
    """
    may_be_claimed: LiteralString = f"""{queue.may_be_called}
                           and ({queue.destinations}.leased_until is null or {queue.destinations}.leased_until <= now())
                           and ({queue.destinations}.rests_until is null or {queue.destinations}.rests_until <= now())
                           and ({queue.destinations}.failing_since is not null) = %(failing)s"""
    return f"""
    with recursive
         pending (destination, next_at) as (
             (select {queue.of}, next_at
                from {queue.waiting}
               where next_at is not null and {queue.of} > %(after)s
               order by {queue.of}, next_at
               limit 1)
              union all
             select next.{queue.of}, next.next_at
               from pending
              cross join lateral (
                        select {queue.of}, next_at
                          from {queue.waiting}
                         where next_at is not null and {queue.of} > pending.destination
                         order by {queue.of}, next_at
                         limit 1
                    ) as next
         ),
         looked as materialized (select destination, next_at from pending limit %(most)s),
         busy as materialized (
             select organization, count(*) as slots from unnest(%(busy)s::uuid[]) as one (organization) group by organization
         ),
         ready as materialized (
             select looked.destination, organizations.id as organization,
                    row_number() over (
                        partition by organizations.id order by looked.destination <= %(turn)s, looked.destination
                    ) as place
               from looked
               join {queue.destinations} on {queue.destinations}.{queue.key} = looked.destination
               {queue.joins}
              where looked.next_at <= now() and {may_be_claimed}
         ),
         shared as materialized (
             select ready.destination
               from ready
               left join busy on busy.organization = ready.organization
              where ready.place <= %(limit)s - (coalesce(busy.slots, 0) + 1) / 2
              order by ready.place + coalesce(busy.slots, 0), ready.destination <= %(turn)s, ready.destination
         ),
         chosen as materialized (
             select free.id
               from shared
              cross join lateral (
                        select {queue.destinations}.{queue.key} as id
                          from {queue.destinations}
                          {queue.joins}
                         where {queue.destinations}.{queue.key} = shared.destination and {may_be_claimed}
                           for no key update of {queue.destinations} skip locked
                    ) as free
              limit %(limit)s
         ),
         claimed as (
             update {queue.destinations}
                set lease = gen_random_uuid(), leased_until = now() + %(lease)s::interval
               from chosen
              where {queue.destinations}.{queue.key} = chosen.id
          returning {queue.destinations}.*
         ),
         ends as (
             select case when (select count(*) from chosen) = %(limit)s then (select max(id::text)::uuid from chosen)
                         when (select count(*) from looked) = %(most)s then (select max(destination::text)::uuid from looked)
                    end as last
         )
  select ends.last, claimed.lease, {columns}
    from ends
    left join claimed on true
    {joins}
   where {AT_LEISURE}
"""


def finding(queue: Queue, columns: LiteralString, joins: LiteralString, order: LiteralString) -> LiteralString:
    """What is due for one destination, as `deliveries`, if it may be called and the lease holds."""
    return f"""
    select deliveries.id, deliveries.attempts, {columns}
      from {queue.destinations}
      {queue.joins}
     cross join lateral (
               select *
                 from {queue.waiting}
                where {queue.waiting}.{queue.of} = {queue.destinations}.{queue.key} and {queue.waiting}.next_at <= now()
                order by {queue.waiting}.next_at
                limit %(limit)s
           ) as deliveries
     {joins}
     where {queue.destinations}.{queue.key} = %(destination)s and {queue.destinations}.lease = %(lease)s and {queue.may_be_called}
     order by deliveries.next_at, {order}
"""


def settling(queue: Queue, kept: LiteralString = "") -> LiteralString:
    """Writes down the `outcomes`. The number of attempts makes it harmless to say it twice, when nobody knows whether the first time was
    heard. `kept`: what else of an outcome is written.
    """
    return f"""
    with outcomes as materialized (
             select *
               from jsonb_to_recordset(%(outcomes)s)
                 as told (id uuid, attempts smallint, delivered boolean, status_code smallint, response_body text, error text,
                          pause double precision, rest double precision)
         ),
         held as (
             update {queue.destinations}
                set failing_since = case when not (select bool_or(delivered) from outcomes) then coalesce(failing_since, now()) end,
                    rests_until = coalesce(now() + make_interval(secs => (select max(rest) from outcomes)), rests_until)
              where {queue.key} = %(destination)s and lease = %(lease)s
          returning {queue.key} as id, failing_since
         ),
         settled as (
             update {queue.waiting} as waiting
                set attempts = waiting.attempts + 1, status_code = outcomes.status_code, {kept} error = outcomes.error, updated_at = now(),
                    delivered_at = case when outcomes.delivered then now() end, next_at = now() + make_interval(secs => outcomes.pause)
               from outcomes, held
              where waiting.id = outcomes.id and waiting.{queue.of} = held.id and waiting.attempts = outcomes.attempts
         )
  select failing_since from held where {AT_LEISURE}
"""


def releasing(queue: Queue) -> LiteralString:
    return f"""
    update {queue.destinations}
       set lease = null, leased_until = null, rests_until = coalesce(now() + %(rest)s::interval, rests_until)
     where {queue.key} = %(destination)s and lease = %(lease)s and {AT_LEISURE}
"""


def told(outcomes: Sequence[Outcome]) -> Jsonb:
    """For the parameter `outcomes`."""
    return Jsonb(
        [
            {
                "id": str(outcome.delivery),
                "attempts": outcome.attempts,
                "delivered": outcome.delivered,
                "status_code": outcome.status_code,
                "response_body": None if outcome.response_body is None else storable_text(outcome.response_body),
                "error": None if outcome.error is None else storable_text(outcome.error),
                "pause": None if outcome.pause is None else outcome.pause.total_seconds(),
                "rest": None if outcome.rest is None else outcome.rest.total_seconds(),
            }
            for outcome in outcomes
        ]
    )
