"""Connections that are kept for a while after an answer. httpcore's own pool looks through all of its connections, several times, for each
request: with receivers by the hundred that takes longer than the request. Here each look-up is one of its origin.
"""

import ssl
from collections import defaultdict
from typing import Final

import httpcore
import trio

from adapters.outbound.conversation import OutboundConnection

# Many tenants' receivers are quiet for minutes. What is kept costs a descriptor here and one there.
MOST_KEPT: Final = 256
KEPT_FOR: Final = 30.0

_Key = tuple[bytes, bytes, int]


class KeptConnections:
    def __init__(self, network: httpcore.AsyncNetworkBackend, context: ssl.SSLContext) -> None:
        self._network = network
        self._context = context
        # Those that wait for a next request, the oldest first, with the time until which they do.
        self._idle: dict[httpcore.AsyncHTTPConnection, tuple[_Key, float]] = {}
        self._of: defaultdict[_Key, list[httpcore.AsyncHTTPConnection]] = defaultdict(list)

    async def take(self, origin: httpcore.Origin) -> tuple[httpcore.AsyncHTTPConnection, bool]:
        """The one that was used last, and True; or a new one."""
        while (waiting := self._of.get(_key(origin))) is not None:
            connection = waiting[-1]
            self._forget(connection)
            # Also one that the other side has closed meanwhile.
            if not connection.has_expired():
                return connection, True
            await _closed(connection)
        made = OutboundConnection(origin=origin, ssl_context=self._context, keepalive_expiry=KEPT_FOR, network_backend=self._network)
        return made, False

    async def give_back(self, origin: httpcore.Origin, connection: httpcore.AsyncHTTPConnection) -> None:
        """Keeps it if it may be used again, and closes those whose time is over or for which there is no room."""
        if connection.is_idle():
            self._idle[connection] = (_key(origin), trio.current_time() + KEPT_FOR)
            self._of[_key(origin)].append(connection)
        else:
            await _closed(connection)
        while self._idle:
            oldest = next(iter(self._idle))
            if len(self._idle) <= MOST_KEPT and self._idle[oldest][1] > trio.current_time():
                break
            self._forget(oldest)
            await _closed(oldest)

    async def aclose(self) -> None:
        for connection in list(self._idle):
            self._forget(connection)
            await _closed(connection)

    def _forget(self, connection: httpcore.AsyncHTTPConnection) -> None:
        key, _ = self._idle.pop(connection)
        others = self._of[key]
        others.remove(connection)
        if not others:
            del self._of[key]


def _key(origin: httpcore.Origin) -> _Key:
    return origin.scheme, origin.host, origin.port


async def _closed(connection: httpcore.AsyncHTTPConnection) -> None:
    """However the one who asks for it ends."""
    with trio.CancelScope(shield=True):
        await connection.aclose()
