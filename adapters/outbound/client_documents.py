"""Fetches what clients publish: client ID metadata documents and key sets."""

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import structlog
import trio

from core.domain.errors import BadRequest, Overloaded
from core.domain.federation.oauth.client_documents import LARGEST_DOCUMENT, PATIENCE, KeptDocument
from core.domain.formats import Json
from core.domain.outbound import KEYS_PATIENCE, LARGEST_SET, destination, keys_destination, published_keys
from ports.outbound import Outbound, OutboundAnswer, OutboundFailed

log = structlog.get_logger()
Result = TypeVar("Result")


class GuardedDocuments:
    """Implements `ports.federation.oauth.DocumentSource`."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound

    async def fetch(self, address: str) -> OutboundAnswer:
        return await self._outbound.get(destination(address), PATIENCE, most=LARGEST_DOCUMENT, headers={"accept": "application/json"})


# In seconds. Anybody can send assertions with made-up key ids, and without this limit each assertion would cause a call to the tenant's
# server.
_AT_MOST_EVERY: Final = 10.0
_REMEMBERED: Final = 1_000


@dataclass(slots=True)
class _Look:
    turn: trio.Lock = field(default_factory=trio.Lock)
    at: float | None = None
    keys: Mapping[str, Json] | None = None


class GuardedKeySets:
    """Implements `ports.services.services.KeySets`."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self._looks: OrderedDict[str, _Look] = OrderedDict()

    async def fetch(self, url: str) -> Mapping[str, Json]:
        answer = await self._outbound.get(keys_destination(url), KEYS_PATIENCE, most=LARGEST_SET)
        return published_keys(answer.status, answer.body)

    async def renewed(self, url: str) -> Mapping[str, Json] | None:
        look = self._looks.setdefault(url, _Look())
        self._looks.move_to_end(url)
        while len(self._looks) > _REMEMBERED:
            self._looks.popitem(last=False)
        async with look.turn:
            if look.at is None or trio.current_time() - look.at > _AT_MOST_EVERY:
                look.keys = await self._read(url)
                look.at = trio.current_time()
            return look.keys

    async def _read(self, url: str) -> Mapping[str, Json] | None:
        try:
            return await self.fetch(url)
        except OutboundFailed as failed:
            reason = failed.failure.value
        except BadRequest as refused:
            reason = refused.message
        log.warning("client_keys_not_read", host=keys_destination(url).host, reason=reason)
        return None


# Each has 5 KiB of JSON at most. Whoever sends requests for so many new documents has the older ones fetched again, and no more.
MOST_REMEMBERED: Final = 100


class RememberedDocuments:
    """Implements `ports.federation.oauth.NewDocuments`.

    Keeps the documents of clients that no user has allowed yet in the memory of this process: many users may meet a new client at once, and
    a request that anyone can send must not create a row.
    """

    def __init__(self) -> None:
        self._documents: OrderedDict[str, KeptDocument] = OrderedDict()

    def find(self, address: str) -> KeptDocument | None:
        return self._documents.get(address)

    def keep(self, kept: KeptDocument) -> None:
        self._documents[kept.document.address] = kept
        self._documents.move_to_end(kept.document.address)
        if len(self._documents) > MOST_REMEMBERED:
            self._documents.popitem(last=False)

    def forget(self) -> None:
        self._documents.clear()


# Each holds a connection, and a request that waits for it. The slowest takes some seconds.
MOST_UNDER_WAY: Final = 64
# Whoever runs an organization can have its rules lead to hosts that never answer, so no organization has all places.
MOST_OF_ONE: Final = 8
# Anybody can name a document that nobody knows, so those that are known have places of their own.
FOR_KNOWN: Final = 16
RETRY_AFTER: Final = 1.0


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
