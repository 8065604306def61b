"""The shared half of a rate limit: token buckets as rows, by the database's clock."""

from dataclasses import dataclass
from typing import Final

from adapters.postgres.pool import Pool
from adapters.postgres.statements import ask, tell
from core.domain.rate_limits import RateLimit

FORGOTTEN_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Taken:
    wait: float


class PostgresBuckets:
    """Implements `ports.rate_limits.SharedBuckets`. The key names who is limited, never what is guessed."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def take(self, limit: RateLimit, key: str) -> float:
        (taken,) = await ask(
            self._pool, _Taken, _TAKE, {"limit": limit.name, "key": key, "burst": float(limit.burst), "pace": limit.seconds_per_request}
        )
        return taken.wait

    async def forget_full(self) -> int:
        return await tell(self._pool, FORGET_FULL, {"limit": FORGOTTEN_AT_ONCE})


# `core.domain.rate_limits.take`, in SQL. Of takers at once, each waits for the row's lock and sees what the one before left; so the clock
# is read under the lock, once, and never runs backwards for a bucket.
_TAKE: Final = """
    insert into rate_limit_buckets as bucket (limit_name, key, tokens, at, wait, full_at)
    values (%(limit)s, %(key)s, %(burst)s - 1, clock_timestamp(), 0, clock_timestamp() + %(pace)s * interval '1 second')
        on conflict (limit_name, key) do update
       set (tokens, at, wait, full_at) = (
               select after.tokens, after.at, after.wait, after.at + (%(burst)s - after.tokens) * %(pace)s * interval '1 second'
                 from (select greatest(bucket.at, clock_timestamp()) as at) as clock
                cross join lateral (
                          select clock.at,
                                 least(%(burst)s, bucket.tokens + extract(epoch from clock.at - bucket.at)::double precision / %(pace)s)
                                     as tokens
                      ) as before
                cross join lateral (
                          select before.at,
                                 before.tokens - case when before.tokens >= 1 then 1 else 0 end as tokens,
                                 case when before.tokens >= 1 then 0 else (1 - before.tokens) * %(pace)s end as wait
                      ) as after
           )
 returning wait
"""

FORGET_FULL: Final = """
    delete from rate_limit_buckets
     where ctid = any (array(
               select ctid from rate_limit_buckets where full_at <= clock_timestamp() limit %(limit)s for update skip locked
           ))
"""
