"""A limit on work that runs on the event loop. Hundreds of pieces at once would take turns in each round of the loop, and every other
request would wait for a whole round.
"""

from types import TracebackType
from typing import Final

import trio


class FewAtOnce:
    """`async with few:` waits in line for a place. The limit on requests in flight bounds the line."""

    __slots__ = ("_places",)

    def __init__(self, most: int) -> None:
        self._places: Final = trio.Semaphore(most)

    async def __aenter__(self) -> None:
        try:
            # If a place is free, the task takes it without giving up its turn.
            self._places.acquire_nowait()
        except trio.WouldBlock:
            await self._places.acquire()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._places.release()
