"""Published key sets, fetched through the guarded dialer."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog
import trio

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.outbound import KEYS_PATIENCE, LARGEST_SET, keys_destination, published_keys
from ports.outbound import Outbound, OutboundFailed

log = structlog.get_logger()

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
