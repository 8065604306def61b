"""What providers publish, remembered for a while: their metadata and their keys. Many at once wait for one call, also for one that fails:
a provider that lets its callers wait would hold them up one after the other.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import trio

FRESH_FOR: Final = 3600.0
# Where a provider that does not answer matters at once, in seconds. One that has failed is left alone for a moment, so that many people who
# knock in turn do not each wait for it, nor add to what it suffers from.
LOOK_COUNTS_FOR: Final = 60.0
FAILURE_COUNTS_FOR: Final = 10.0
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
    failed_at: float = 0.0

    def has_failed_within(self, seconds: float) -> bool:
        return self.failure is not None and trio.current_time() - self.failed_at <= seconds

    def is_fresh(self, not_older_than: float) -> bool:
        return trio.current_time() - self.fetched_at <= not_older_than


class PublishedAnswers(Generic[Published]):
    def __init__(self, fetch: Callable[[str], Awaitable[Published]], most: int = MOST) -> None:
        self._fetch = fetch
        self._most = most
        self._places: OrderedDict[str, _Place[Published]] = OrderedDict()

    async def look(self, url: str) -> None:
        """Calls if the last call is older than a minute, and one at a time. Raises what `fetch` does, or did a moment ago."""
        await self.get(url, not_older_than=LOOK_COUNTS_FOR, not_again_within=FAILURE_COUNTS_FOR)

    async def get(self, url: str, *, not_older_than: float = FRESH_FOR, not_again_within: float = -1.0) -> Published:
        """What was published at most so many seconds ago. Raises what `fetch` does; a failure counts for so many seconds as well."""
        place = self._places.setdefault(url, _Place())
        self._places.move_to_end(url)
        while len(self._places) > self._most:
            self._places.popitem(last=False)
        if place.published is not None and place.is_fresh(not_older_than):
            return place.published
        calls = place.calls
        async with place.turn:
            if place.failure is not None and (place.calls > calls or place.has_failed_within(not_again_within)):
                # Each raising would add to its traceback, which holds what everybody had at hand who was told of it.
                raise place.failure.with_traceback(None)
            if place.published is None or not place.is_fresh(not_older_than):
                place.published = await self._called(url, place)
                place.fetched_at = trio.current_time()
            return place.published

    async def _called(self, url: str, place: _Place[Published]) -> Published:
        try:
            published = await self._fetch(url)
        except Exception as failure:
            place.calls, place.failure, place.failed_at = place.calls + 1, failure, trio.current_time()
            raise
        place.calls, place.failure = place.calls + 1, None
        return published
