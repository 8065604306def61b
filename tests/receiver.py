"""A receiver of outbound calls on loopback: it keeps the requests, and answers as the test says."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Final

import h11
import trio


@dataclass(frozen=True, slots=True)
class Call:
    target: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"


Answer = Callable[[trio.abc.Stream, Call], Awaitable[bool]]


def answering(status: int, body: bytes = b"", *lines: str) -> Answer:
    async def answer(stream: trio.abc.Stream, _call: Call) -> bool:
        head = "\r\n".join([f"HTTP/1.1 {status} X", f"content-length: {len(body)}", *lines, "", ""])
        await stream.send_all(head.encode() + body)
        return True

    return answer


async def trickling(stream: trio.abc.Stream, _call: Call) -> bool:
    """Sends a byte now and then, and never ends."""
    await stream.send_all(b"HTTP/1.1 200 OK\r\n")
    while True:
        await stream.send_all(b"x")
        await trio.sleep(1)


def endlessly(begins: bytes, goes_on: bytes) -> Answer:
    async def answer(stream: trio.abc.Stream, _call: Call) -> bool:
        await stream.send_all(begins)
        while True:
            await stream.send_all(goes_on)

    return answer


# Endless answers in tiny pieces. To read these costs far more than their few bytes suggest.
CRUMBS: Final[Mapping[str, Answer]] = {
    "interim heads": endlessly(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 100),
    "chunks of a byte": endlessly(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 500),
    "lines of a byte": endlessly(b"HTTP/1.1 200 OK\r\n", b"a:\r\n" * 500),
}


async def hanging_up(_stream: trio.abc.Stream, _call: Call) -> bool:
    return False


@dataclass(slots=True)
class Receiver:
    """A receiver. A test may change `answer` while the receiver runs."""

    answer: Answer
    port: int = 0
    calls: list[Call] = field(default_factory=list)
    connections: int = 0
    _arrived: trio.Condition = field(default_factory=trio.Condition)

    async def until(self, count: int) -> list[Call]:
        async with self._arrived:
            while len(self.calls) < count:
                await self._arrived.wait()
        return self.calls

    async def serve(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        try:
            protocol = h11.Connection(h11.SERVER)
            while (call := await _received(stream, protocol)) is not None:
                self.calls.append(call)
                async with self._arrived:
                    self._arrived.notify_all()
                if not await self.answer(stream, call):
                    break
                protocol = h11.Connection(h11.SERVER)
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
            pass
        finally:
            await trio.aclose_forcefully(stream)


async def _received(stream: trio.abc.Stream, protocol: h11.Connection) -> Call | None:
    request, body = None, b""
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            data = await stream.receive_some()
            if not data and request is None:
                return None
            protocol.receive_data(bytes(data))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert request is not None
            headers = {name.decode(): value.decode() for name, value in request.headers}
            return Call(request.target.decode(), headers, body, request.method.decode())
        else:
            return None


@asynccontextmanager
async def receiving(answer: Answer, tls: SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver(answer)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    receiver.port = listeners[0].socket.getsockname()[1]

    async def serve(stream: trio.SocketStream) -> None:
        if tls is None:
            await receiver.serve(stream)
            return
        secure = trio.SSLStream(stream, tls, server_side=True)
        try:
            await secure.do_handshake()
        except trio.BrokenResourceError:
            await trio.aclose_forcefully(stream)
        else:
            await receiver.serve(secure)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield receiver
        nursery.cancel_scope.cancel()
