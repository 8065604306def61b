"""Origins of applications that run in browsers. Pages of these origins may read the answers of the token endpoint (CORS)."""

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Final

from core.domain.services.redirect_uris import LONGEST_URI
from ports.clock import Clock
from ports.federation.client_origins import ClientOriginLookup

# A change of redirect URIs counts within this time. The delay does no harm: an answer holds no secret from a page that has the token.
_KNOWN_FOR: Final = timedelta(minutes=1)
_MOST: Final = 1000


class ClientOrigins:
    def __init__(self, lookup: ClientOriginLookup, clock: Clock, most: int = _MOST) -> None:
        """Remembers at most `most` origins."""
        self._most = most
        self._lookup = lookup
        self._clock = clock
        self._known: OrderedDict[str, tuple[bool, datetime]] = OrderedDict()

    async def includes(self, origin: str) -> bool:
        if len(origin) > LONGEST_URI:
            return False
        now = self._clock.now()
        known = self._known.get(origin)
        if known is not None and now < known[1]:
            return known[0]
        found = await self._lookup.includes(origin)
        self._known[origin] = found, now + _KNOWN_FOR
        self._known.move_to_end(origin)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return found
