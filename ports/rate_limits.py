"""The shared half of a rate limit: the bucket that all processes draw from."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.rate_limits import Place, RateLimit


class SharedBuckets(Protocol):
    """Where an operator turns rate limits off, buckets without a limit do."""

    async def take(self, limit: RateLimit, key: str) -> float:
        """Take one token in one round trip. However many callers ask at once, the bucket gives no more tokens than it holds. Returns the
        seconds to wait: 0 when there was a token.
        """

    async def take_all(self, limits: Sequence[RateLimit], key: str, around: Sequence[Place] = ()) -> Sequence[float]:
        """Take one token of each limit, still in one round trip. If all have given one, take one of each of the places around, the
        narrowest first, until one place refuses: a refused caller takes nothing from their neighbours. Returns the longest wait for each
        limit in the order of the limits, whose names differ.
        """

    async def give_back(self, limit: RateLimit, key: str, around: Sequence[Place] = ()) -> None:
        """Return a token to each bucket, because the attempt does not count after all."""

    async def forget_full(self) -> int:
        """Delete buckets that have filled up again. Returns how many were deleted."""
