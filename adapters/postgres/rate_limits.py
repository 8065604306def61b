"""The shared half of a rate limit: token buckets as rows, by the database's clock."""

from collections.abc import Sequence
from typing import Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask, tell
from adapters.postgres.transaction import Transaction
from core.domain.rate_limits import Place, RateLimit
from core.frozen import Frozen

FORGOTTEN_AT_ONCE: Final = 1_000
# `_TAKE_AROUND` names as many.
_MOST_AROUND: Final = 2


class _Taken(Frozen):
    limit_name: str
    key: str
    wait: float


class PostgresBuckets:
    """Implements `ports.rate_limits.SharedBuckets`. The key names who is limited, and never what is guessed."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def take(self, limit: RateLimit, key: str) -> float:
        (wait,) = await self.take_all([limit], key)
        return wait

    async def take_all(self, limits: Sequence[RateLimit], key: str, around: Sequence[Place] = ()) -> Sequence[float]:
        if len(around) > _MOST_AROUND:
            raise ValueError(f"a client has at most {_MOST_AROUND} places around it")
        taken = await ask(
            self._pool,
            _Taken,
            _TAKE_AROUND if around else _TAKE_ALL,
            {
                "limits": [limit.name for limit in limits],
                "keys": [key, *(place.key for place in around)],
                "rooms": [1.0, *(float(place.room) for place in around)],
                "bursts": [float(limit.burst) for limit in limits],
                "paces": [limit.seconds_per_request for limit in limits],
            },
        )
        return [max(one.wait for one in taken if one.limit_name == limit.name) for limit in limits]

    async def give_back(self, limit: RateLimit, key: str, around: Sequence[Place] = ()) -> None:
        await tell(
            self._pool,
            _GIVE_ALL_BACK,
            {
                "limit": limit.name,
                "keys": [key, *(place.key for place in around)],
                "rooms": [1.0, *(float(place.room) for place in around)],
                "burst": float(limit.burst),
                "pace": limit.seconds_per_request,
            },
        )

    async def forget_full(self) -> int:
        return await tell(self._pool, FORGET_FULL, {"limit": FORGOTTEN_AT_ONCE})


async def give_back(transaction: Transaction, limit: RateLimit, key: str) -> None:
    """Returns a token that was taken in advance for something that does not count after all."""
    parameters = {"limit": limit.name, "key": key, "burst": float(limit.burst), "pace": limit.seconds_per_request}
    await transaction.tell_along(_GIVE_BACK, parameters)


# `core.domain.rate_limits.take` in SQL, for each row of the relation `wanted`: limit_name, key, burst, pace. Callers at the same time each
# wait for the row's lock and see what the one before left. So the clock is read once, under the lock, and never runs backwards for a
# bucket. Rows are taken in one order everywhere, so that two requests under the same limits cannot deadlock. What the insert would have
# written tells the bucket's measures where the row exists already: the burst is one more than the tokens left, and the pace is the time
# until the bucket is full again.
TAKE_WANTED: Final = """
    insert into rate_limit_buckets as bucket (limit_name, key, tokens, at, wait, full_at)
    select wanted.limit_name, wanted.key, wanted.burst - 1, clock.at, 0, clock.at + wanted.pace * interval '1 second'
      from wanted
     cross join (select clock_timestamp() as at) as clock
     order by wanted.limit_name, wanted.key
        on conflict (limit_name, key) do update
       set (tokens, at, wait, full_at) = (
               select after.tokens, after.at, after.wait, after.at + (measure.burst - after.tokens) * measure.pace * interval '1 second'
                 from (
                          select excluded.tokens + 1 as burst,
                                 extract(epoch from excluded.full_at - excluded.at)::double precision as pace,
                                 greatest(bucket.at, clock_timestamp()) as at
                      ) as measure
                cross join lateral (
                          select measure.at,
                                 least(
                                     measure.burst,
                                     bucket.tokens + extract(epoch from measure.at - bucket.at)::double precision / measure.pace
                                 ) as tokens
                      ) as before
                cross join lateral (
                          select before.at,
                                 before.tokens - case when before.tokens >= 1 then 1 else 0 end as tokens,
                                 case when before.tokens >= 1 then 0 else (1 - before.tokens) * measure.pace end as wait
                      ) as after
           )
 returning limit_name, key, wait
"""

# One token of one bucket.
TAKE: Final[LiteralString] = f"""
    with wanted as (
             select %(limit)s::text as limit_name, %(key)s::text as key, %(burst)s::double precision as burst,
                    %(pace)s::double precision as pace
         )
    {TAKE_WANTED}
"""

# Of every limit, of the place whose number is to follow.
_OF_PLACE: Final = """
             select given.limit_name, place.key, given.burst * place.room as burst, given.pace / place.room as pace
               from unnest(%(limits)s::text[], %(bursts)s::double precision[], %(paces)s::double precision[])
                   as given (limit_name, burst, pace)
               join unnest(%(keys)s::text[], %(rooms)s::double precision[]) with ordinality as place (key, room, number)
                 on place.number = """

_TAKE_ALL: Final[LiteralString] = f"""
    with wanted as ({_OF_PLACE} 1)
    {TAKE_WANTED}
"""

# The wider ones only if all of the narrower gave their tokens. Everybody takes the rows of the narrowest places first, then those around.
_TAKE_AROUND: Final[LiteralString] = f"""
    with narrowest as (
             with wanted as ({_OF_PLACE} 1)
             {TAKE_WANTED}
         ),
         wider as (
             with wanted as ({_OF_PLACE} 2 and (select max(narrowest.wait) from narrowest) = 0)
             {TAKE_WANTED}
         ),
         widest as (
             with wanted as ({_OF_PLACE} 3 and (select max(wider.wait) from wider) = 0)
             {TAKE_WANTED}
         )
  select * from narrowest
   union all
  select * from wider
   union all
  select * from widest
"""

_GIVE_BACK: Final = """
    update rate_limit_buckets
       set tokens = least(%(burst)s, tokens + 1), full_at = full_at - %(pace)s * interval '1 second', wait = 0
     where limit_name = %(limit)s and key = %(key)s
"""

# The narrowest place first, as it was taken. The rows are found by their key a second time: whoever waited for a lock holds a newer version
# of the row than the one that this statement began with, and only by its key is that one found.
_GIVE_ALL_BACK: Final = """
    with wanted as (
             select bucket.key, place.room
               from unnest(%(keys)s::text[], %(rooms)s::double precision[]) with ordinality as place (key, room, number)
               join rate_limit_buckets as bucket on bucket.limit_name = %(limit)s and bucket.key = place.key
              order by place.number
                for update of bucket
         )
  update rate_limit_buckets as bucket
     set tokens = least(%(burst)s * wanted.room, bucket.tokens + 1),
         full_at = bucket.full_at - %(pace)s / wanted.room * interval '1 second',
         wait = 0
    from wanted
   where bucket.limit_name = %(limit)s and bucket.key = wanted.key
"""

FORGET_FULL: Final = """
    delete from rate_limit_buckets
     where ctid = any (array(
               select ctid from rate_limit_buckets where full_at <= clock_timestamp() limit %(limit)s for update skip locked
           ))
"""
