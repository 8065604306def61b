"""One request and its answer: the ASGI conversation with the application, and the framing of both bodies."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol

import trio

from entrypoints.http.server.bodies import AnyBody, MalformedBody
from entrypoints.http.server.heads import AnswerHead, Framing, Headers, RequestHead, Scope, error_answer

Message = MutableMapping[str, Any]
Application = Callable[[Scope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

# An extension of ours in the scope's `extensions`: a request that calls this function is not cancelled when the client leaves.
FINISH: Final = "postern.finish"

# Each chunk of a body costs a parser step, however small the chunk is. `_STEPS_AT_ONCE` bounds the steps before other tasks have their
# turn. After `_FREE_CHUNKS` chunks, a chunk must have `_LEAST_CHUNK` bytes on average.
_STEPS_AT_ONCE = 256
_FREE_CHUNKS = 1024
_LEAST_CHUNK = 16

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"


class Wire(Protocol):
    """What an exchange needs from its connection."""

    def must_close(self) -> bool:
        """True when this answer has to be the connection's last."""

    async def transmit(self, data: bytes) -> None:
        """Send all of `data`. If the client is gone or too slow, the connection is cancelled, and the caller with it."""

    async def receive_body(self, received: int) -> bytes | None:
        """More of the body. Empty at the end of the stream, None when the client is too slow; `received` bytes came before."""


class Exchange:
    """The `receive` and `send` of one request, in the connection's own task. The body is read only when the application asks for it."""

    __slots__ = (
        "_body",
        "_chunk_count",
        "_chunks",
        "_delivered",
        "_end",
        "_framing",
        "_head",
        "_received",
        "_remaining",
        "_start",
        "_wire",
        "abandoned",
        "finished",
        "keeps_alive",
    )

    def __init__(self, wire: Wire, head: RequestHead, body: AnyBody) -> None:
        self._wire = wire
        self._body = body
        self._head = head
        self._chunks: list[bytes] = []
        self._chunk_count = 0
        self._received = 0
        self._delivered = False
        self._start: Message | None = None
        self._framing = Framing.UNDECIDED
        self._remaining = 0
        self._end: trio.Event | None = None
        self.keeps_alive = head.keeps_alive
        # The answer is out, to its last byte.
        self.finished = False
        # The server itself has answered, or the client is gone. Anything that the application still sends is dropped.
        self.abandoned = False

    @property
    def answering(self) -> bool:
        """Part of the application's answer may have reached the client."""
        return self._framing is not Framing.UNDECIDED

    @property
    def body_complete(self) -> bool:
        return self._body.complete

    def rest(self) -> bytes:
        """The bytes received after this request: the beginning of a pipelined request."""
        return self._body.rest

    async def receive(self) -> Message:
        while not self._delivered and not self.abandoned:
            if not self._body.complete and not self._chunks:
                try:
                    self._parse()
                except MalformedBody as error:
                    await self._give_up(error.status, error.text)
                    break
            if self._chunks or self._body.complete:
                body = b"".join(self._chunks)
                self._chunks.clear()
                self._delivered = self._body.complete
                return {"type": "http.request", "body": body, "more_body": not self._body.complete}
            await self._read()
        if not self.finished and not self.abandoned:
            # Only two things can still happen: the client leaves, which cancels us, or our own answer ends.
            if self._end is None:
                self._end = trio.Event()
            await self._end.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            if self._start is not None:
                raise RuntimeError("The application started its answer twice")
            self._start = message
            return
        if kind != "http.response.body":
            raise RuntimeError(f"The application sent {kind!r}, which this server does not offer")
        if self.abandoned:
            return
        if self._start is None or self.finished:
            raise RuntimeError("The application sent a body outside of its answer")
        body = message.get("body", b"")
        more = message.get("more_body", False)
        head = b""
        if self._framing is Framing.UNDECIDED:
            head = self._write_head(self._start, body, more=more)
        await self._wire.transmit(head + self._frame(body, more=more))
        if more:
            # A client that reads as fast as we write would otherwise keep the other tasks from running.
            await trio.lowlevel.checkpoint()
        else:
            self._finish()

    async def refuse(self, status: int, code: str, text: str, *, headers: Headers = ()) -> None:
        """Answer in place of the application."""
        self.keeps_alive = self._may_keep_alive()
        data = error_answer(status, code, text, close=not self.keeps_alive, headers=headers, bodiless=self._head.method == "HEAD")
        self._framing = Framing.LENGTH
        await self._wire.transmit(data)
        self._finish()

    async def _give_up(self, status: int, text: str) -> None:
        self.abandoned = True
        self.keeps_alive = False
        if not self.answering:
            await self.refuse(status, "BAD_REQUEST", text)

    async def _read(self) -> None:
        if self._head.expects_continue:
            self._head.expects_continue = False
            if not self.answering:
                await self._wire.transmit(_CONTINUE)
        data = await self._wire.receive_body(self._received)
        if data is None:
            await self._give_up(408, "The request body arrived too slowly")
        elif not data:
            self.abandoned = True
            self.keeps_alive = False
        else:
            self._received += len(data)
            self._body.feed(data)

    def _parse(self) -> None:
        """Parse the buffered part of the body, up to a bounded number of steps."""
        for _ in range(_STEPS_AT_ONCE):
            piece = self._body.next_piece()
            if piece is None:
                break
            self._chunks.append(piece)
            self._chunk_count += 1
        if self._chunk_count > _FREE_CHUNKS and self._received < self._chunk_count * _LEAST_CHUNK:
            raise MalformedBody(400, "The request body arrives in pieces that are too small")

    def _may_keep_alive(self) -> bool:
        if not self.keeps_alive or self._wire.must_close():
            return False
        if not self._body.complete and not self._head.expects_continue:
            # The application answers before it has asked for the body, usually with a refusal. If the whole body is here already, the
            # connection can go on.
            try:
                self._parse()
            except MalformedBody:
                return False
        return self._body.complete

    def _write_head(self, start: Message, body: bytes, *, more: bool) -> bytes:
        head = AnswerHead(start["status"], start.get("headers", ()))
        head.frame(body, more=more, method=self._head.method, old=self._head.old)
        head.closes = head.closes or not self._may_keep_alive()
        data = head.data()
        self.keeps_alive = not head.closes
        self._remaining = head.length or 0
        self._framing = head.framing
        return data

    def _frame(self, body: bytes, *, more: bool) -> bytes:
        framing = self._framing
        if framing is Framing.LENGTH:
            self._remaining -= len(body)
            if self._remaining < 0 or (self._remaining and not more):
                raise RuntimeError("The application's body is not as long as it announced")
            return body
        if framing is Framing.CHUNKED:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return chunk if more else chunk + _LAST_CHUNK
        return b"" if framing is Framing.NOTHING else body

    def _finish(self) -> None:
        self.finished = True
        if self._end is not None:
            self._end.set()
