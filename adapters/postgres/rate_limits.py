"""The shared half of a rate limit: token buckets as rows, by the database's clock."""

from collections.abc import Mapping, Sequence
from typing import Final, LiteralString, cast

from adapters.postgres.statements import OnPool, Transaction, ask, tell
from core.domain.rate_limits import Place, RateLimit
from core.frozen import Frozen

FORGOTTEN_AT_ONCE: Final = 1_000
# The statement `_TAKE_AROUND` takes tokens from at most this many wider places.
_MOST_AROUND: Final = 2


class _Taken(Frozen):
    limit_name: str
    key: str
    wait: float


class PostgresBuckets(OnPool):
    """Implements `ports.system.SharedBuckets`. The key names the limited caller, never the secret that a caller tries to guess."""

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
                # An array has one type, and some limits state whole seconds.
                "paces": [float(limit.seconds_per_request) for limit in limits],
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
                "pace": float(limit.seconds_per_request),
            },
        )

    async def forget_full(self) -> int:
        return await tell(self._pool, FORGET_FULL, {"limit": FORGOTTEN_AT_ONCE})


async def give_back(transaction: Transaction, limit: RateLimit, key: str) -> None:
    """Returns a token that was taken in advance for something that does not count after all."""
    parameters = {"limit": limit.name, "key": key, "burst": float(limit.burst), "pace": limit.seconds_per_request}
    await transaction.tell_along(_GIVE_BACK, parameters)


# `core.domain.rate_limits.take` in SQL, for each row of the relation `wanted`: limit_name, key, burst, pace. Concurrent callers wait for
# the row's lock one after the other, and each sees the row that the caller before left. So the statement reads the clock once, under the
# lock, and the time of a bucket never runs backwards. All statements lock rows in the same order, so two requests under the same limits
# cannot deadlock. Where the row exists already, the values of the refused insert give the bucket's measures: the burst is one more than the
# tokens left, and the pace is the time until the bucket is full again.
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

# The columns that it returns, and their types.
TAKEN: Final = cast(
    "Mapping[LiteralString, LiteralString]", dict(zip(_Taken.__annotations__, ("text", "text", "double precision"), strict=True))
)

# One token of one bucket.
TAKE: Final[LiteralString] = f"""
    with wanted as (
             select %(limit)s::text as limit_name, %(key)s::text as key, %(burst)s::double precision as burst,
                    %(pace)s::double precision as pace
         )
    {TAKE_WANTED}
"""

# For every limit, the bucket of one place. The number of the place follows this text.
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

# A wider place gives a token only if all narrower places gave theirs. Every caller locks the rows of the narrowest places first, then the
# rows of the places around.
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

# Locks the narrowest place first, in the order in which the tokens were taken. The update finds the rows by their key a second time: after
# waiting for a lock, the current version of a row is newer than the version that this statement began with, and only the key finds the
# current one.
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
