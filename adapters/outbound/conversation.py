"""One connection's requests and answers, for receivers that nobody trusts. httpcore reads 64 KiB at once, and works through all that it
holds before another task has its turn: interim heads without end, chunks of a byte. Here each turn is short, and such answers are refused.
"""

import re
from typing import Any, Final

import h11
import httpcore
import trio

READ: Final = 4096
# What h11 itself proposes. Servers that send more break Node's clients, too.
LONGEST_HEAD: Final = 16 << 10
# Python's own client takes 100.
MOST_LINES: Final = 128
"""Of a head, and of the trailers behind an answer."""
MOST_INTERIM: Final = 10
"""Heads of the class 1xx before the answer. Servers that work for long send some; nobody needs more."""
# Servers that send rows as they come send small chunks; the beginning of an answer may have any size.
MOST_CRUMBS: Final = 1024
SMALLEST: Final = 16
"""So many bytes an answer has on average in each of its chunks, and in each piece that arrives, once it has had `MOST_CRUMBS` of them."""
# Together they take half a millisecond.
_PARTS_A_TURN: Final = 32
_PAUSE: Final = 0.05
"""Behind so many crumbs: whoever sends them has a hundredth of a processor, however many there are, and however often we call."""
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")


class Excessive(httpcore.ProtocolError):
    """An answer that costs more to read than it says. Not a `RemoteProtocolError`, after which a call on a kept connection is repeated."""


class OutboundConnection(httpcore.AsyncHTTPConnection):
    """As httpcore's own, with a conversation of ours."""

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        if self._connection is None:
            self._connection = _Conversation(self._origin, await self._connect(request), self._keepalive_expiry)
        return await super().handle_async_request(request)


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
            # A chunk that a read cuts in two is one.
            if event.chunk_end:
                self._chunks += 1
                await self._weigh(self._chunks)
        return event

    def _next_event(self) -> Any:
        """`h11.NEED_DATA` if there is none yet."""
        at_head = self._is_at_head()
        if at_head:
            # Before it is taken apart, which takes two milliseconds for a thousand lines.
            self._require_few_lines()
        try:
            event = self._h11_state.next_event()
        except h11.RemoteProtocolError as error:
            raise httpcore.RemoteProtocolError(str(error)) from error
        if event is h11.NEED_DATA and not at_head:
            # No content waits here: the line before a chunk, or trailers.
            self._require_few_lines()
        return event

    async def _read(self, timeout: float | None) -> None:  # noqa: ASYNC109 - as above
        """Each read is a checkpoint, as all of Trio's are."""
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
        """After each part that has arrived."""
        are_crumbs = self._said < parts * SMALLEST
        if are_crumbs and parts > MOST_CRUMBS:
            raise Excessive("too many crumbs")
        if parts % _PARTS_A_TURN == 0:
            await trio.sleep(_PAUSE if are_crumbs else 0)
