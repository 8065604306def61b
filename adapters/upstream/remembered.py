"""Keep the metadata and keys that providers publish for a while. Callers that ask at the same time share one call, also a call that fails.
Otherwise a slow provider would delay these callers one after the other.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import trio

from core.domain.identity.upstream.sign_in import ProviderAway

FRESH_FOR: Final = 3600.0
# In seconds. `look` asks whether a provider answers, and a call of the last minute counts for it. For somebody who tries another way in,
# only a call of the last second counts, since this person may be the first who met the outage. A failure counts for ten seconds, so that
# many people who come one after the other do not each wait for a failing provider, and do not add to its load. It counts only while the
# provider is known to be away: if it is not, somebody has got through since, perhaps by another process. So whoever read that it is there a
# moment before the failure was noted, and looks after the failed call has ended, calls again. Those who do so at once share a call.
LOOK_COUNTS_FOR: Final = 60.0
ATTEMPT_COUNTS_FOR: Final = 1.0
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
    """The failure of the last call, if it failed."""
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

    async def look(self, url: str, *, at_attempt: bool = False, is_away: bool = True) -> None:
        """Fetch if the last call is older than a minute, or than a second at an attempt to come in otherwise. Raises the error of `fetch`;
        of a provider that is known to be away, also an error of the last ten seconds.
        """
        counts_for = ATTEMPT_COUNTS_FOR if at_attempt else LOOK_COUNTS_FOR
        await self.get(url, not_older_than=counts_for, not_again_within=FAILURE_COUNTS_FOR if is_away else -1.0)

    async def get(self, url: str, *, not_older_than: float = FRESH_FOR, not_again_within: float = -1.0) -> Published:
        """The answer of the provider, fetched at most `not_older_than` seconds ago. Raises the error of `fetch`, also an error of the last
        `not_again_within` seconds.
        """
        place = self._places.setdefault(url, _Place())
        self._places.move_to_end(url)
        while len(self._places) > self._most:
            self._places.popitem(last=False)
        if place.published is not None and place.is_fresh(not_older_than):
            return place.published
        calls = place.calls
        async with place.turn:
            if place.failure is not None and (place.calls > calls or place.has_failed_within(not_again_within)):
                raise _repeated(place.failure)
            # A call that ended while this caller waited for its turn is new enough, whatever its age by the clock.
            if place.published is None or (place.calls == calls and not place.is_fresh(not_older_than)):
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


def _repeated(failure: Exception) -> Exception:
    """The failure for a caller who has not made the call."""
    if isinstance(failure, ProviderAway):
        return ProviderAway(detail=failure.detail, is_news=False)
    # Without `with_traceback`, each raise would lengthen the traceback, and the traceback keeps the local variables of all these callers in
    # memory.
    return failure.with_traceback(None)
