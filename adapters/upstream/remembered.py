"""What providers publish, remembered for a while: their metadata and their keys. Many at once wait for one call, also for one that fails:
a provider that lets its callers wait would hold them up one after the other.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import trio

FRESH_FOR: Final = 3600.0
MOST: Final = 500

Published = TypeVar("Published")


@dataclass(slots=True)
class _Place(Generic[Published]):
    turn: trio.Lock = field(default_factory=trio.Lock)
    published: Published | None = None
    fetched_at: float = 0.0
    calls: int = 0
    failure: Exception | None = None
    """Of the last call."""

    def is_fresh(self, not_older_than: float) -> bool:
        return trio.current_time() - self.fetched_at <= not_older_than


class Remembered(Generic[Published]):
    def __init__(self, fetch: Callable[[str], Awaitable[Published]], most: int = MOST) -> None:
        self._fetch = fetch
        self._most = most
        self._places: OrderedDict[str, _Place[Published]] = OrderedDict()

    async def get(self, url: str, *, not_older_than: float = FRESH_FOR) -> Published:
        """What was published at most so many seconds ago. Raises what `fetch` does."""
        place = self._places.setdefault(url, _Place())
        self._places.move_to_end(url)
        while len(self._places) > self._most:
            self._places.popitem(last=False)
        if place.published is not None and place.is_fresh(not_older_than):
            return place.published
        calls = place.calls
        async with place.turn:
            if place.failure is not None and place.calls > calls:
                raise place.failure
            if place.published is None or not place.is_fresh(not_older_than):
                place.published = await self._called(url, place)
                place.fetched_at = trio.current_time()
            return place.published

    async def _called(self, url: str, place: _Place[Published]) -> Published:
        try:
            published = await self._fetch(url)
        except Exception as failure:
            place.calls, place.failure = place.calls + 1, failure
            raise
        place.calls, place.failure = place.calls + 1, None
        return published
