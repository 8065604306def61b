"""Threads that verify signatures of others, read long messages, and encrypt. Their long steps release the interpreter's lock, so two
threads use two processors. More threads would take processor time from all other requests. lxml and xmlsec are imported when the first
document needs them, since both together cost ten megabytes.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import trio

from core.domain.errors import Overloaded

T = TypeVar("T")

_THREADS: Final = 2
# Each document takes some milliseconds, so a request behind this many would wait for more than a second.
_MOST_APPROVALS: Final = 400


class XmlThreads:
    def __init__(self, *, threads: int = _THREADS, most_waiting: int = _MOST_APPROVALS) -> None:
        self._limiter = trio.CapacityLimiter(threads)
        self._most = threads + most_waiting
        self._inside = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Raises `Overloaded`, and the errors of `work`."""
        if self._inside >= self._most:
            raise Overloaded(retry_after=1, detail="too many SAML documents wait")
        self._inside += 1
        try:
            return await trio.to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._inside -= 1
