"""The threads for signatures of others, long messages and encryption. All that takes long in them lets go of the interpreter, so two
threads use two processors; more would take them from everybody else. lxml and xmlsec are imported when the first document needs them, since
they cost ten megabytes.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import trio

from core.domain.errors import Overloaded

T = TypeVar("T")

_THREADS: Final = 2
# Some milliseconds of work each: whoever comes after these would wait for a second.
_MOST_WAITING: Final = 400


class XmlThreads:
    def __init__(self, *, threads: int = _THREADS, most_waiting: int = _MOST_WAITING) -> None:
        self._limiter = trio.CapacityLimiter(threads)
        self._most = threads + most_waiting
        self._inside = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Raises `Overloaded`, and what `work` does."""
        if self._inside >= self._most:
            raise Overloaded(retry_after=1, detail="too many SAML documents wait")
        self._inside += 1
        try:
            return await trio.to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._inside -= 1
