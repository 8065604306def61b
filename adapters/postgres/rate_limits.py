"""The shared half of a rate limit: token buckets as rows, by the database's clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from adapters.postgres.pool import Pool
from adapters.postgres.statements import ask, tell
from adapters.postgres.transaction import Transaction
from core.domain.rate_limits import RateLimit

FORGOTTEN_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Taken:
    limit_name: str
    key: str
    wait: float


class PostgresBuckets:
    """Implements `ports.rate_limits.SharedBuckets`. The key names who is limited, never what is guessed."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def take(self, limit: RateLimit, key: str) -> float:
        (wait,) = await self.take_all([limit], key)
        return wait

    async def take_all(self, limits: Sequence[RateLimit], key: str) -> Sequence[float]:
        taken = await ask(
            self._pool,
            _Taken,
            _TAKE_ALL,
            {
                "limits": [limit.name for limit in limits],
                "key": key,
                "bursts": [float(limit.burst) for limit in limits],
                "paces": [limit.seconds_per_request for limit in limits],
            },
        )
        waits = {one.limit_name: one.wait for one in taken}
        return [waits[limit.name] for limit in limits]

    async def forget_full(self) -> int:
        return await tell(self._pool, FORGET_FULL, {"limit": FORGOTTEN_AT_ONCE})


async def give_back(transaction: Transaction, limit: RateLimit, key: str) -> None:
    """A token that was taken in advance, for something that is not to count after all."""
    await transaction.tell(_GIVE_BACK, {"limit": limit.name, "key": key, "burst": float(limit.burst), "pace": limit.seconds_per_request})


# `core.domain.rate_limits.take`, in SQL, for each row of the relation `wanted`: limit_name, key, burst, pace. Of takers at once, each waits
# for the row's lock and sees what the one before left; so the clock is read under the lock, once, and never runs backwards for a bucket.
# The rows are taken in one order everywhere: two requests under the same limits cannot deadlock.
# What the insert would have written tells the bucket's measures where the row is there already: a burst is one more than the tokens left,
# and a pace the time until the bucket is full again.
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

_TAKE_ALL: Final[LiteralString] = f"""
    with wanted as (
             select limit_name, %(key)s::text as key, burst, pace
               from unnest(%(limits)s::text[], %(bursts)s::double precision[], %(paces)s::double precision[])
                 as given (limit_name, burst, pace)
         )
    {TAKE_WANTED}
"""

_GIVE_BACK: Final = """
    update rate_limit_buckets
       set tokens = least(%(burst)s, tokens + 1), full_at = full_at - %(pace)s * interval '1 second', wait = 0
     where limit_name = %(limit)s and key = %(key)s
"""

FORGET_FULL: Final = """
    delete from rate_limit_buckets
     where ctid = any (array(
               select ctid from rate_limit_buckets where full_at <= clock_timestamp() limit %(limit)s for update skip locked
           ))
"""
