"""Fetches that requests share: many may need the same document at once, and one call brings it to all of them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import trio

from core.domain.errors import Overloaded

# Each holds a connection, and a request that waits for it. The slowest takes some seconds.
MOST_UNDER_WAY: Final = 64
RETRY_AFTER: Final = 1.0
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class _Fetch:
    ended: trio.Event = field(default_factory=trio.Event)
    succeeded: bool = False
    result: Any = None


class SharedWork:
    """Implements `ports.federation.client_documents.SharedFetches`."""

    def __init__(self, most: int = MOST_UNDER_WAY) -> None:
        self._under_way: dict[str, _Fetch] = {}
        self._most = most

    async def join(self, key: str, work: Callable[[], Awaitable[Result]]) -> Result:
        while (other := self._under_way.get(key)) is not None:
            await other.ended.wait()
            if other.succeeded:
                result: Result = other.result
                return result
            # The request that fetched was cancelled, because its client has left. One of those that waited fetches anew.
        if len(self._under_way) >= self._most:
            raise Overloaded(retry_after=RETRY_AFTER, detail="too many documents are being fetched")
        own = self._under_way[key] = _Fetch()
        try:
            own.result = await work()
            own.succeeded = True
            return own.result  # type: ignore[no-any-return]
        finally:
            del self._under_way[key]
            own.ended.set()
