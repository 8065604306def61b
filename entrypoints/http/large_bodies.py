"""Decode or encode large bodies in one of a few threads. On the event loop, this work would make all other requests wait."""

from collections.abc import Callable, Sized
from typing import Final, TypeVar

import trio

T = TypeVar("T")

_LARGE: Final = 16 << 10
_THREADS: Final = 2
_LIMITER: Final = trio.CapacityLimiter(_THREADS)


async def beside_the_loop(work: Callable[[], T], body: Sized) -> T:
    """The result of `work`. For a small body, `work` runs at once, without a thread. Raises the errors of `work`."""
    return work() if len(body) < _LARGE else await trio.to_thread.run_sync(work, limiter=_LIMITER)
