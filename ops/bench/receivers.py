"""Receivers of webhooks and signals for the benchmarks, in this process. They do little, because the benchmarks measure the sender."""

import json
import time
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import trio

from ops.free_ports import free_port

_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_FAULT = b"HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n"
_HEAD_END = b"\r\n\r\n"


@dataclass(slots=True)
class Receivers:
    """Each path of one port is a destination: `/ok/…` answers at once, `/500` with that, `/slow` a byte a second. `/crowd` lists a hundred
    people of SCIM a page, with names of a thousand emoji, and never comes to an end. `/dead` of `dead_port` is where nobody listens.
    """

    port: int
    dead_port: int
    arrived: dict[bytes, float] = field(default_factory=dict)
    """The first moment of each delivery at `/ok`, by its id."""
    times: Counter[bytes] = field(default_factory=Counter)
    pages: int = 0
    """How many of `/crowd` were asked for."""
    _came: trio.Event = field(default_factory=trio.Event)

    def url(self, name: str) -> str:
        port = self.dead_port if name == "dead" else self.port
        return f"http://127.0.0.1:{port}/{name}"

    async def until(self, count: int) -> None:
        """Waits until this many different deliveries have come to `/ok`."""
        while len(self.arrived) < count:
            self._came = trio.Event()
            await self._came.wait()

    async def serve(self, stream: trio.SocketStream) -> None:
        buffered = b""
        try:
            while True:
                while _HEAD_END not in buffered:
                    received = await stream.receive_some(65536)
                    if not received:
                        return
                    buffered += received
                head, _, buffered = buffered.partition(_HEAD_END)
                headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
                length = int(headers.get(b"content-length", b"0"))
                while len(buffered) < length:
                    received = await stream.receive_some(65536)
                    if not received:
                        return
                    buffered += received
                body, buffered = buffered[:length], buffered[length:]
                delivery = headers.get(b"x-webhook-delivery") or _signal(headers, body)
                await self._answer(stream, head.split(b" ", 2)[1], delivery)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    async def _answer(self, stream: trio.SocketStream, path: bytes, delivery: bytes) -> None:
        if path.startswith(b"/500"):
            await stream.send_all(_FAULT)
        elif path.startswith(b"/slow"):
            for byte in _OK:
                await stream.send_all(bytes([byte]))
                await trio.sleep(1)
        elif path.startswith(b"/crowd"):
            first, self.pages = self.pages * 100, self.pages + 1
            body = await trio.to_thread.run_sync(_crowd, first)
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/scim+json\r\ncontent-length: {len(body)}\r\n\r\n"
            await stream.send_all(head.encode() + body)
        else:
            self.times[delivery] += 1
            self.arrived.setdefault(delivery, time.monotonic())
            self._came.set()
            await stream.send_all(_OK)


def _crowd(first: int) -> bytes:
    emoji = "🔥" * 990
    people = [{"id": f"{one:0200}", "userName": f"{one}{emoji}", "externalId": f"{one}{emoji}"} for one in range(first, first + 100)]
    return json.dumps({"totalResults": 10**9, "Resources": people}, ensure_ascii=False).encode()


def _signal(headers: Mapping[bytes, bytes], body: bytes) -> bytes:
    """The id of a pushed signal, which is in its claims. Nothing for any other call."""
    if headers.get(b"content-type") != b"application/secevent+jwt":
        return b""
    claims = body.split(b".")[1]
    return str(json.loads(urlsafe_b64decode(claims + b"=" * (-len(claims) % 4)))["jti"]).encode()


@asynccontextmanager
async def receivers() -> AsyncIterator[Receivers]:
    async with trio.open_nursery() as nursery:
        made = Receivers(0, free_port())
        listeners = await nursery.start(partial(trio.serve_tcp, made.serve, 0, host="127.0.0.1"))
        made.port = listeners[0].socket.getsockname()[1]
        yield made
        nursery.cancel_scope.cancel()
