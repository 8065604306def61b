"""Queues of deliveries in PostgreSQL: the statements that claim, settle and release, for any table of deliveries and of their receivers."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Generic, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import DueRow, array, due_in, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.jobs import LostClaims
from adapters.postgres.statements import ask, first_made, only, tell
from core.domain.identifiers import OrganizationId
from core.domain.record.deliveries import DeliveryOutcome
from core.frozen import Frozen
from ports.record import Due, To

# How many receivers with waiting deliveries one claim looks at. The next claim goes on where this one stopped.
_LOOKED_AT: Final = 500
_FIRST: Final = UUID(int=0)
# From when on a receiver may be called again.
_RESTED: Final[LiteralString] = "coalesce({}.rests_until, '-infinity')"

# A commit here does not wait for the disk, because that wait would take longer than the attempt. If the server crashes, the outcomes of its
# last moments are lost, and their deliveries are sent again, as after any crash.
AT_LEISURE: Final = "set_config('synchronous_commit', 'off', true) = 'off'"


class DeliveryTables(Frozen, Generic[To, Due], kw_only=True):
    """A table of deliveries has `next_at` (null: the delivery is over), `attempts`, `delivered_at`, `status_code`, `error` and
    `updated_at`. It has an index of its waiting rows that begins with the receiver and `next_at`. A table of receivers has `failing_since`,
    `rests_until`, `lease` and `leased_until`.

    `waiting` is the table of deliveries, and `of` is its column for the receiver; `at` is that for the next attempt. `receivers` is the
    table of receivers, and `key` is its column for the same id. `may_be_called` is a condition on the receiver and on the tables that
    `joins` adds.

    `row` takes `columns`: values of each `claimed` receiver and of the tables that `claimed_joins` adds. The row's method `claimed` makes a
    `To`, or None when the columns are null because nothing was claimed. The row's `last` is where the claim stopped, null at the end of the
    round. `due_row` takes `due_columns`: values of each of the receiver's `deliveries` and of the tables that `due_joins` adds. Its method
    `due` makes a `Due`. `due_order` decides between deliveries that are due at the same moment. `may_go` is a condition on a delivery, its
    receiver and the tables that `joins` adds. `over` has parts of the statement that looks for them: the one of this name gives up
    deliveries before, and returns their ids. `kept` says what else of an outcome is written.
    """

    waiting: LiteralString
    of: LiteralString
    at: LiteralString = "next_at"
    receivers: LiteralString
    key: LiteralString
    joins: LiteralString
    may_be_called: LiteralString
    row: type[Any]
    columns: LiteralString
    claimed_joins: LiteralString = ""
    due_row: type[Any]
    due_columns: LiteralString
    due_joins: LiteralString = ""
    due_order: LiteralString
    may_go: LiteralString = "true"
    over: LiteralString = ""
    kept: LiteralString = ""


class PostgresDeliveryQueue(Generic[To, Due]):
    """Implements `ports.record.DeliveryQueue` for one pair of tables.

    Claims go round: after the last receiver comes the first again, so none waits for ever behind others. When an organization may have no
    more receivers claimed now, its next claim begins with the receivers behind the one that was claimed last.

    A claim takes receivers. The deliveries due for a receiver are looked up after the claim is committed, because the claiming statement
    sees the deliveries as they were when it began.
    """

    def __init__(self, pool: Pool, tables: DeliveryTables[To, Due]) -> None:
        self._pool = pool
        self._row, self._due_row = tables.row, tables.due_row
        self._claim: LiteralString = _claiming(tables)
        self._due_in: LiteralString = _telling(tables)
        self._find: LiteralString = _finding(tables)
        self._settle: LiteralString = _settling(tables)
        self._release: LiteralString = _releasing(tables)
        self._after = {True: _FIRST, False: _FIRST}
        self._lost_claims = LostClaims()
        # The receiver that was claimed last.
        self._turn = {True: _FIRST, False: _FIRST}

    async def claim(self, limit: int, lease: timedelta, *, failing: bool, busy: Sequence[OrganizationId] = ()) -> Sequence[To]:
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
            with self._lost_claims.lease(failing) as mine:
                rows = await ask(self._pool, self._row, self._claim, {**parameters, "mine": mine})
            self._after[failing] = rows[0].last or _FIRST
            claimed: list[To] = [one for row in rows if (one := row.claimed(failing=failing)) is not None]
            ids = [one.id for one in claimed]
            self._turn[failing] = max([one for one in ids if one <= self._turn[failing]] or ids, default=self._turn[failing])
            ends -= rows[0].last is None
            if claimed or ends == 0:
                return claimed

    async def due_in(self) -> float | None:
        return only(await ask(self._pool, DueRow, self._due_in, {"after": _FIRST, "most": _LOOKED_AT})).due_in

    async def due(self, claimed: To, limit: int) -> Sequence[Due]:
        rows = await ask(self._pool, self._due_row, self._find, {"receiver": claimed.id, "lease": claimed.lease, "limit": limit})
        return [row.due() for row in rows]

    async def settle(self, claimed: To, outcomes: Sequence[DeliveryOutcome]) -> datetime | None:
        parameters = {"receiver": claimed.id, "lease": claimed.lease, "outcomes": _outcomes(outcomes)}
        return first_made(await ask(self._pool, _Settled, self._settle, parameters), lambda row: row.failing_since)

    async def release(self, claimed: To, rest: timedelta | None = None) -> None:
        await tell(self._pool, self._release, {"receiver": claimed.id, "lease": claimed.lease, "rest": rest})


class _Settled(Frozen):
    failing_since: datetime | None


def _claiming(tables: DeliveryTables[To, Due]) -> LiteralString:
    """Hops from receiver to receiver through the index, and reads the earliest row of each. So neither a long queue of one receiver nor
    many later rows slow the claim down. If several organizations compete for the free places, no organization gets a second place before
    each has a first.
    """
    may_be_claimed: LiteralString = f"""{tables.may_be_called}
                           and (
                                   {tables.receivers}.leased_until is null
                                   or {tables.receivers}.leased_until <= now()
                                   or {tables.receivers}.lease = %(mine)s
                               )
                           and {_RESTED.format(tables.receivers)} <= now()
                           and ({tables.receivers}.failing_since is not null) = %(failing)s"""
    return f"""
    with recursive
         {_looking(tables)},
         busy as materialized (
             select organization, count(*) as slots from unnest(%(busy)s::uuid[]) as one (organization) group by organization
         ),
         ready as materialized (
             select looked.receiver, organizations.id as organization,
                    row_number() over (
                        partition by organizations.id order by looked.receiver <= %(turn)s, looked.receiver
                    ) as place
               from looked
               join {tables.receivers} on {tables.receivers}.{tables.key} = looked.receiver
               {tables.joins}
              where looked.next_at <= now() and {may_be_claimed}
         ),
         shared as materialized (
             select ready.receiver
               from ready
               left join busy on busy.organization = ready.organization
              where ready.place <= %(limit)s - (coalesce(busy.slots, 0) + 1) / 2
              order by ready.place + coalesce(busy.slots, 0), ready.receiver <= %(turn)s, ready.receiver
         ),
         chosen as materialized (
             select free.id
               from shared
              cross join lateral (
                        select {tables.receivers}.{tables.key} as id
                          from {tables.receivers}
                          {tables.joins}
                         where {tables.receivers}.{tables.key} = shared.receiver and {may_be_claimed}
                           for no key update of {tables.receivers} skip locked
                    ) as free
              limit %(limit)s
         ),
         claimed as (
             update {tables.receivers}
                set lease = %(mine)s, leased_until = now() + %(lease)s::interval
               from chosen
              where {tables.receivers}.{tables.key} = chosen.id
          returning {tables.receivers}.*
         ),
         ends as (
             select case when (select count(*) from chosen) = %(limit)s then (select max(id::text)::uuid from chosen)
                         when (select count(*) from looked) = %(most)s then (select max(receiver::text)::uuid from looked)
                    end as last
         )
  select ends.last, claimed.lease, {tables.columns}
    from ends
    left join claimed on true
    {tables.claimed_joins}
   where {AT_LEISURE}
"""


def _looking(tables: DeliveryTables[To, Due]) -> LiteralString:
    """The first waiting delivery of each of the next receivers."""
    return f"""
         pending (receiver, next_at) as (
             (select {tables.of}, {tables.at}
                from {tables.waiting}
               where {tables.at} is not null and {tables.of} > %(after)s
               order by {tables.of}, {tables.at}
               limit 1)
              union all
             select next.{tables.of}, next.{tables.at}
               from pending
              cross join lateral (
                        select {tables.of}, {tables.at}
                          from {tables.waiting}
                         where {tables.at} is not null and {tables.of} > pending.receiver
                         order by {tables.of}, {tables.at}
                         limit 1
                    ) as next
         ),
         looked as materialized (select receiver, next_at from pending limit %(most)s)"""


def _telling(tables: DeliveryTables[To, Due]) -> LiteralString:
    """When a receiver can be claimed: its first delivery is due, its rest is over, and its lease has ended. Where there are more receivers
    than one look reads, one of the others may be due at any time.
    """
    return f"""
    with recursive
         {_looking(tables)}
  select case when (select count(*) from looked) = %(most)s then 0.0
              else {due_in(f"greatest(looked.next_at, {_RESTED.format(tables.receivers)}, {tables.receivers}.leased_until)")}
         end as due_in
    from looked
    join {tables.receivers} on {tables.receivers}.{tables.key} = looked.receiver
    {tables.joins}
   where {tables.may_be_called}
"""


def _finding(tables: DeliveryTables[To, Due]) -> LiteralString:
    """The deliveries due for one receiver, if the receiver may be called and the lease holds."""
    over: LiteralString = f"with {tables.over}" if tables.over else ""
    going: LiteralString = "and deliveries.id not in (select id from over)" if tables.over else ""
    return f"""
    {over}
    select deliveries.id, deliveries.attempts, {tables.due_columns}
      from {tables.receivers}
      {tables.joins}
     cross join lateral (
               select *
                 from {tables.waiting}
                where {tables.waiting}.{tables.of} = {tables.receivers}.{tables.key} and {tables.waiting}.{tables.at} <= now()
                  and {tables.may_go}
                order by {tables.waiting}.{tables.at}
                limit %(limit)s
           ) as deliveries
     {tables.due_joins}
     where {tables.receivers}.{tables.key} = %(receiver)s and {tables.receivers}.lease = %(lease)s and {tables.may_be_called} {going}
     order by deliveries.{tables.at}, {tables.due_order}
"""


def _settling(tables: DeliveryTables[To, Due]) -> LiteralString:
    """Writes the `outcomes`. If the answer to this statement is lost, the caller may run the statement again: the number of attempts keeps
    an outcome from being written twice.
    """
    return f"""
    with outcomes as materialized (
             select *
               from jsonb_to_recordset(%(outcomes)s)
                 as told (id uuid, attempts smallint, delivered boolean, status_code smallint, response_body text, error text,
                          pause double precision, rest double precision)
         ),
         held as (
             update {tables.receivers}
                set failing_since = case when not (select bool_or(delivered) from outcomes) then coalesce(failing_since, now()) end,
                    rests_until = coalesce(now() + make_interval(secs => (select max(rest) from outcomes)), rests_until)
              where {tables.key} = %(receiver)s and lease = %(lease)s
          returning {tables.key} as id, failing_since
         ),
         settled as (
             update {tables.waiting} as waiting
                set attempts = waiting.attempts + 1, status_code = outcomes.status_code, {tables.kept} error = outcomes.error,
                    updated_at = now(), delivered_at = case when outcomes.delivered then now() end,
                    {tables.at} = now() + make_interval(secs => outcomes.pause)
               from outcomes, held
              where waiting.id = outcomes.id and waiting.{tables.of} = held.id and waiting.attempts = outcomes.attempts
         )
  select failing_since from held where {AT_LEISURE}
"""


def _releasing(tables: DeliveryTables[To, Due]) -> LiteralString:
    return f"""
    update {tables.receivers}
       set lease = null, leased_until = null, rests_until = coalesce(now() + %(rest)s::interval, rests_until)
     where {tables.key} = %(receiver)s and lease = %(lease)s and {AT_LEISURE}
"""


def _outcomes(outcomes: Sequence[DeliveryOutcome]) -> Jsonb:
    """The value of the parameter `outcomes`."""
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
