"""Reused outbound HTTP connections, and the conversation over each with an untrusted server."""

import re
import ssl
from collections import defaultdict
from typing import Any, Final

import h11
import httpcore
import trio

READ: Final = 4096
# h11's own default. Node's clients refuse longer heads as well.
LONGEST_HEAD: Final = 16 << 10
# Python's own client accepts 100 headers.
MOST_LINES: Final = 128
"""The most lines in a head, and in the trailers after an answer."""
MOST_INTERIM: Final = 10
"""The most heads of the class 1xx before the answer. A server that works for long may send some, but no server needs more."""
# Some servers send small chunks, because they send each row as it comes. So the beginning of an answer may have chunks of any size.
MOST_CRUMBS: Final = 1024
SMALLEST: Final = 16
"""After `MOST_CRUMBS` chunks, the chunks of an answer must have this many bytes on average. The same holds for the pieces that reads
return.
"""
# Processing so many parts takes half a millisecond.
_PARTS_A_TURN: Final = 32
_PAUSE: Final = 0.05
"""The pause after `_PARTS_A_TURN` small parts. With it, an answer of small parts takes at most a hundredth of a processor, for any length.
"""
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")


class Excessive(httpcore.ProtocolError):
    """The answer costs too much to read. This is no `RemoteProtocolError`, because after such an error a call on a kept connection is
    repeated.
    """


class OutboundConnection(httpcore.AsyncHTTPConnection):
    """httpcore's connection, with `_Conversation` in place of httpcore's own HTTP/1.1 connection.

    httpcore reads 64 KiB at once and processes all of it before another task has its turn, even endless interim heads or chunks of one
    byte. Here each turn is short, and such responses are refused.
    """

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        if self._connection is None:
            self._connection = _Conversation(self._origin, await self._connect(request), self._keepalive_expiry)
        return await super().handle_async_request(request)

    @property
    def has_connected(self) -> bool:
        return self._connection is not None


class _Conversation(httpcore.AsyncHTTP11Connection):
    MAX_INCOMPLETE_EVENT_SIZE = LONGEST_HEAD

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        self._interim = self._chunks = self._reads = self._said = 0
        return await super().handle_async_request(request)

    async def _receive_event(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - httpcore's own; the client has one deadline over all
        event = self._next_event()
        while event is h11.NEED_DATA:
            await self._read(timeout)
            event = self._next_event()
        if isinstance(event, h11.InformationalResponse):
            self._interim += 1
            if self._interim > MOST_INTERIM:
                raise Excessive("too many interim heads")
        elif isinstance(event, h11.Data):
            self._said += len(event.data)
            # A chunk that arrives in two reads counts as one.
            if event.chunk_end:
                self._chunks += 1
                await self._weigh(self._chunks)
        return event

    def _next_event(self) -> Any:
        """The next event, or `h11.NEED_DATA` if more bytes must arrive first."""
        at_head = self._is_at_head()
        if at_head:
            # The lines are counted before h11 parses the head, because parsing a thousand lines takes two milliseconds.
            self._require_few_lines()
        try:
            event = self._h11_state.next_event()
        except h11.RemoteProtocolError as error:
            raise httpcore.RemoteProtocolError(str(error)) from error
        if event is h11.NEED_DATA and not at_head:
            # The bytes that wait are no content: they are the line before a chunk, or trailers.
            self._require_few_lines()
        return event

    async def _read(self, timeout: float | None) -> None:  # noqa: ASYNC109 - the client has one deadline over all
        """Read once from the network. The read is a checkpoint, so other tasks have their turn."""
        data = await self._network_stream.read(READ, timeout=timeout)
        if self._is_at_head():
            if not data:
                raise httpcore.RemoteProtocolError("no answer")
            self._said += len(data)
        self._reads += 1
        await self._weigh(self._reads)
        self._h11_state.receive_data(data)

    def _is_at_head(self) -> bool:
        return self._h11_state.their_state is h11.SEND_RESPONSE

    def _require_few_lines(self) -> None:
        waiting, _ = self._h11_state.trailing_data
        end = _BLANK_LINE.search(waiting)
        if waiting.count(b"\n", 0, len(waiting) if end is None else end.start() + 1) > MOST_LINES:
            raise Excessive("too many lines")

    async def _weigh(self, parts: int) -> None:
        """Called after each part that has arrived. Refuses the answer if too many parts are small, and gives other tasks their turn."""
        are_crumbs = self._said < parts * SMALLEST
        if are_crumbs and parts > MOST_CRUMBS:
            raise Excessive("too many crumbs")
        if parts % _PARTS_A_TURN == 0:
            await trio.sleep(_PAUSE if are_crumbs else 0)


# Many tenants' receivers get no request for minutes. A kept connection costs a descriptor here and one at the receiver.
MOST_KEPT: Final = 256
KEPT_FOR: Final = 30.0

_Key = tuple[bytes, bytes, int]


class KeptConnections:
    """httpcore's own pool goes through all its connections several times for each request: with hundreds of receivers, this takes longer
    than the request itself. Here a dictionary finds the connections of an origin.
    """

    def __init__(self, network: httpcore.AsyncNetworkBackend, context: ssl.SSLContext) -> None:
        self._network = network
        self._context = context
        # The connections that wait for a next request, the oldest first, each with its origin and the time when its waiting ends.
        self._idle: dict[OutboundConnection, tuple[_Key, float]] = {}
        self._of: defaultdict[_Key, list[OutboundConnection]] = defaultdict(list)

    async def take(self, origin: httpcore.Origin) -> tuple[OutboundConnection, bool]:
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

    async def give_back(self, origin: httpcore.Origin, connection: OutboundConnection) -> None:
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

    def _forget(self, connection: OutboundConnection) -> None:
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
