"""Connections that are kept for a while after an answer. httpcore's own pool goes through all its connections several times for each
request: with hundreds of receivers, this takes longer than the request itself. Here a dictionary finds the connections of an origin.
"""

import ssl
from collections import defaultdict
from typing import Final

import httpcore
import trio

from adapters.outbound.conversation import OutboundConnection

# Many tenants' receivers get no request for minutes. A kept connection costs a descriptor here and one at the receiver.
MOST_KEPT: Final = 256
KEPT_FOR: Final = 30.0

_Key = tuple[bytes, bytes, int]


class KeptConnections:
    def __init__(self, network: httpcore.AsyncNetworkBackend, context: ssl.SSLContext) -> None:
        self._network = network
        self._context = context
        # The connections that wait for a next request, the oldest first, each with its origin and the time when its waiting ends.
        self._idle: dict[httpcore.AsyncHTTPConnection, tuple[_Key, float]] = {}
        self._of: defaultdict[_Key, list[httpcore.AsyncHTTPConnection]] = defaultdict(list)

    async def take(self, origin: httpcore.Origin) -> tuple[httpcore.AsyncHTTPConnection, bool]:
        """The origin's connection that was used last, and True; or a new connection, and False."""
        while (waiting := self._of.get(_key(origin))) is not None:
            connection = waiting[-1]
            self._forget(connection)
            # `has_expired` is also true for a connection that the server has closed meanwhile.
            if not connection.has_expired():
                return connection, True
            await _closed(connection)
        made = OutboundConnection(origin=origin, ssl_context=self._context, keepalive_expiry=KEPT_FOR, network_backend=self._network)
        return made, False

    async def give_back(self, origin: httpcore.Origin, connection: httpcore.AsyncHTTPConnection) -> None:
        """Keep the connection if it can be used again. Close connections whose time is over, and the oldest while there are too many."""
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
    """Close the connection, even if the caller is cancelled."""
    with trio.CancelScope(shield=True):
        await connection.aclose()
