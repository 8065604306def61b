"""A limit to the requests that a process works on at once. Waiting for a client to send its body or to read its answer is not work."""

import sys
from types import TracebackType
from typing import Final

from core.domain.errors import Overloaded


class Work:
    """`with work:` counts one more request at work. Raises `Overloaded` when too many requests are at work.

    A plain class with slots, since every request passes through it.
    """

    __slots__ = ("_most", "_now")

    def __init__(self, most: int) -> None:
        self._most = most
        self._now = 0

    def __enter__(self) -> None:
        if self._now >= self._most:
            raise Overloaded(retry_after=1, detail="too many requests in flight")
        self._now += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._now -= 1


UNBOUNDED: Final = Work(sys.maxsize)
"""For requests that Postern answers even while the process is overloaded."""
