"""Rate limits that are off: every bucket always has a token."""

from collections.abc import Sequence

import trio

from core.domain.rate_limits import Place, RateLimit


class UnlimitedBuckets:
    """Implements `ports.system.SharedBuckets` for an installation with `POSTERN_RATE_LIMITS=off`."""

    async def take(self, _limit: RateLimit, _key: str) -> float:
        await trio.lowlevel.checkpoint()
        return 0.0

    async def take_all(self, limits: Sequence[RateLimit], _key: str, _around: Sequence[Place] = ()) -> Sequence[float]:
        await trio.lowlevel.checkpoint()
        return [0.0 for _ in limits]

    async def give_back(self, _limit: RateLimit, _key: str, _around: Sequence[Place] = ()) -> None:
        await trio.lowlevel.checkpoint()

    async def forget_full(self) -> int:
        await trio.lowlevel.checkpoint()
        return 0
