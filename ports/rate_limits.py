"""The shared half of a rate limit: the bucket that all processes draw from."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.rate_limits import RateLimit


class SharedBuckets(Protocol):
    async def take(self, limit: RateLimit, key: str) -> float:
        """Take one token in one round trip; of many callers at once, no more than the bucket holds get one. Returns the seconds to wait, 0
        when a token was there.
        """

    async def take_all(self, limits: Sequence[RateLimit], key: str) -> Sequence[float]:
        """One token of each, still in one round trip. Returns the waits in the order of the limits, whose names differ."""

    async def forget_full(self) -> int:
        """Drop buckets that have filled up again. Returns how many."""
