"""Work on the event loop of which a few pieces are done at a time. Hundreds of them at once would take turns in each round of the loop, and
whoever asks for something else waits for a whole round.
"""

from types import TracebackType
from typing import Final

import trio


class FewAtOnce:
    """`async with few:` waits for a place, in line. How many may wait is bounded by the requests in flight."""

    __slots__ = ("_places",)

    def __init__(self, most: int) -> None:
        self._places: Final = trio.Semaphore(most)

    async def __aenter__(self) -> None:
        try:
            # No turn of the loop is lost where nobody waits.
            self._places.acquire_nowait()
        except trio.WouldBlock:
            await self._places.acquire()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._places.release()
