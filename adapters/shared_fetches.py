"""Fetches that requests share: many may need the same document at once, and one call brings it to all of them."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import trio

from core.domain.errors import Overloaded

# Each holds a connection, and a request that waits for it. The slowest takes some seconds.
MOST_UNDER_WAY: Final = 64
# Whoever runs an organization can have its rules lead to hosts that never answer, so no organization has all places.
MOST_OF_ONE: Final = 8
# Anybody can name a document that nobody knows, so those that are known have places of their own.
FOR_KNOWN: Final = 16
RETRY_AFTER: Final = 1.0
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class _Fetch:
    asked_for: str
    ended: trio.Event = field(default_factory=trio.Event)
    succeeded: bool = False
    result: Any = None


class SharedWork:
    """Implements `ports.federation.oauth.SharedFetches`."""

    def __init__(self) -> None:
        self._under_way: dict[str, _Fetch] = {}
        self._places: Counter[str] = Counter()

    async def join(self, key: str, work: Callable[[], Awaitable[Result]], organization: str, *, is_known: bool) -> Result:
        while (other := self._under_way.get(key)) is not None:
            await other.ended.wait()
            if other.succeeded:
                result: Result = other.result
                return result
            # The request that fetched was cancelled, because its client has left. One of those that waited fetches anew.
        most = MOST_UNDER_WAY if is_known else MOST_UNDER_WAY - FOR_KNOWN
        if len(self._under_way) >= most or self._places[organization] >= MOST_OF_ONE:
            raise Overloaded(retry_after=RETRY_AFTER, detail="too many documents are being fetched")
        own = self._under_way[key] = _Fetch(organization)
        self._places[organization] += 1
        try:
            own.result = await work()
            own.succeeded = True
            return own.result  # type: ignore[no-any-return]
        finally:
            del self._under_way[key]
            self._places -= Counter((own.asked_for,))
            own.ended.set()
