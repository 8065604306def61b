"""Asks until a limit refuses, on a machine of any speed: while a test asks, its bucket fills again."""

from collections.abc import Awaitable, Callable

import trio

from core.domain.rate_limits import RateLimit
from tests.http.client import Received


async def until_refused(limit: RateLimit, ask: Callable[[], Awaitable[Received]]) -> tuple[list[int], Received]:
    """The status of each answer before the refusal, and the refusal."""
    began = trio.current_time()
    statuses: list[int] = []
    while (answer := await ask()).status != 429:
        statuses.append(answer.status)
        gained = (trio.current_time() - began) / limit.seconds_per_request
        assert len(statuses) <= limit.burst + gained, "more got through than the limit lets through"
    assert len(statuses) >= limit.burst
    return statuses, answer
