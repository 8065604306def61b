"""Our load generator: raw HTTP/1.1 over kept-alive connections, every answer counted and timed, every failure named.

`python -m ops.bench.load URL` runs it alone, with a processor of its own, and prints one JSON object. The cases about faults use it in
their own process, because they look at each answer.
"""

import argparse
import json
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Final, Self
from urllib.parse import urlsplit

import trio

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_CHUNK: Final = 65536


class NotLoopback(Exception):
    """Refuses a target on another machine."""


@dataclass(frozen=True, slots=True)
class Target:
    host: str
    port: int
    path: str = "/"
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: bool = False
    method: str = "GET"
    body: bytes = b""

    def __post_init__(self) -> None:
        if self.host not in LOOPBACK:
            raise NotLoopback(f"{self.host} is not this machine")

    @classmethod
    def parse(cls, url: str, headers: Mapping[str, str] | None = None) -> Self:
        parts = urlsplit(url)
        tls = parts.scheme == "https"
        return cls(parts.hostname or "", parts.port or (443 if tls else 80), parts.path or "/", headers or {}, tls)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}{self.path}"

    def request(self) -> bytes:
        lines = [
            f"{self.method} {self.path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
            *([f"Content-Length: {len(self.body)}"] if self.body else []),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + self.body

    def posting(self, content: Mapping[str, object]) -> Self:
        """The same target, with POST and this JSON."""
        headers = {**self.headers, "Content-Type": "application/json"}
        return replace(self, method="POST", headers=headers, body=json.dumps(content).encode())


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def closes(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"


class Broken(Exception):
    """The connection ended before the answer was complete. `begun` says whether a part of the answer had come."""

    def __init__(self, *, begun: bool) -> None:
        super().__init__("in the middle of an answer" if begun else "before an answer")
        self.begun = begun


class Client:
    """One connection, one request at a time."""

    def __init__(self, target: Target, stream: trio.abc.Stream) -> None:
        self._request = target.request()
        self._stream = stream
        self._buffer = b""

    @classmethod
    async def open(cls, target: Target) -> Self:
        """Raises OSError when nothing accepts the connection."""
        stream: trio.abc.Stream = await trio.open_tcp_stream(target.host, target.port)
        if target.tls:
            secured = trio.SSLStream(stream, _trusting_context(), server_hostname="localhost", https_compatible=True)
            try:
                await secured.do_handshake()
            except trio.BrokenResourceError as error:
                raise ConnectionError from error
            stream = secured
        return cls(target, stream)

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)

    @classmethod
    @asynccontextmanager
    async def connected(cls, target: Target) -> AsyncIterator[Self]:
        client = await cls.open(target)
        try:
            yield client
        finally:
            await client.aclose()

    async def get(self) -> Answer:
        return await self._ask(self._request)

    async def ask(self, target: Target) -> Answer:
        """Another request on the same connection. The target must be on the same server."""
        return await self._ask(target.request())

    async def _ask(self, request: bytes) -> Answer:
        started = trio.current_time()
        try:
            await self._stream.send_all(request)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise Broken(begun=False) from None
        head = await self._until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        status = int(first.split(" ", 2)[1])
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = await self._chunks()
        else:
            body = await self._exactly(int(headers.get("content-length", "0")))
        return Answer(status, headers, body, trio.current_time() - started)

    async def send(self, data: bytes) -> None:
        """Sends these bytes as they are, even if nobody reads them."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._stream.send_all(data)

    async def ended(self) -> None:
        """Returns when the server has closed the connection."""
        try:
            while await self._stream.receive_some(_CHUNK):
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def _more(self) -> None:
        try:
            data = await self._stream.receive_some(_CHUNK)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        if not data:
            raise Broken(begun=bool(self._buffer))
        self._buffer += data

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            await self._more()
        taken, _, self._buffer = self._buffer.partition(mark)
        return taken

    async def _exactly(self, length: int) -> bytes:
        while len(self._buffer) < length:
            try:
                await self._more()
            except Broken:
                raise Broken(begun=True) from None  # The head had come.
        taken, self._buffer = self._buffer[:length], self._buffer[length:]
        return taken

    async def _chunks(self) -> bytes:
        body = b""
        while size := int((await self._until(b"\r\n")).partition(b";")[0], 16):
            body += await self._exactly(size)
            await self._exactly(2)
        await self._exactly(2)
        return body


@dataclass(slots=True)
class Tally:
    """The result. `seconds` is the duration of the load, `latencies` has one for each complete answer."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)

    def answered(self, answer: Answer) -> None:
        self.statuses[answer.status] += 1
        self.latencies.append(answer.seconds)

    @property
    def requests(self) -> int:
        return self.statuses.total()

    def summary(self) -> "Summary":
        good = sum(count for status, count in self.statuses.items() if 200 <= status < 300)
        return Summary(
            requests=self.requests,
            seconds=self.seconds,
            failures=self.failures.total() + self.requests - good,
            p50=percentile(self.latencies, 50),
            p90=percentile(self.latencies, 90),
            p99=percentile(self.latencies, 99),
            slowest=max(self.latencies, default=0.0),
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of every generator. Latencies are in seconds. `failures` counts answers other than 2xx and requests without an answer."""

    requests: int
    seconds: float
    failures: int
    p50: float
    p90: float
    p99: float
    slowest: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds if self.seconds else 0.0


def percentile(values: list[float], percent: float) -> float:
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


async def drive(
    target: Target,
    tally: Tally,
    *,
    connections: int,
    seconds: float,
    patience: float = 30.0,
    pause: float = 0.0,
    until: trio.Event | None = None,
    watch: Callable[[Answer], None] | None = None,
) -> None:
    """Keeps `connections` busy for `seconds`, or until the event. It opens a new connection for one that ended, and tries again a moment
    later if that fails. `patience` is the longest wait for an answer.
    """
    started = trio.current_time()

    async def user() -> None:
        while True:
            try:
                async with Client.connected(target) as client:
                    await _use(client, tally, patience=patience, pause=pause, watch=watch)
            except OSError:
                tally.failures["not connected"] += 1
                await trio.sleep(0.05)

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for _ in range(connections):
                nursery.start_soon(user)
            if until is not None:
                await until.wait()
                nursery.cancel_scope.cancel()
    tally.seconds += trio.current_time() - started


async def _use(client: Client, tally: Tally, *, patience: float, pause: float, watch: Callable[[Answer], None] | None) -> None:
    while True:
        with trio.move_on_after(patience) as waiting:
            try:
                answer = await client.get()
            except Broken as broken:
                tally.failures[f"closed {broken}"] += 1
                return
            tally.answered(answer)
            if watch is not None:
                watch(answer)
            if answer.closes:
                return
        if waiting.cancelled_caught:
            tally.failures[f"no answer within {patience:g} s"] += 1
            return
        if pause:
            await trio.sleep(pause)


async def ask_each(targets: Iterator[Target], tally: Tally, *, connections: int) -> None:
    """Asks each of these targets once, on this many connections. All targets are on one server."""
    began = trio.current_time()

    async def one() -> None:
        target = next(targets, None)
        while target is not None:
            try:
                async with Client.connected(target) as client:
                    closes = False
                    while target is not None and not closes:
                        answer = await client.ask(target)
                        tally.answered(answer)
                        closes = answer.closes
                        target = next(targets, None)
            except (OSError, Broken):
                tally.failures["no answer"] += 1
                await trio.sleep(0.05)
                target = next(targets, None)

    try:
        async with trio.open_nursery() as nursery:
            for _ in range(connections):
                nursery.start_soon(one)
    finally:
        tally.seconds += trio.current_time() - began


@asynccontextmanager
async def asking(targets: Iterator[Target], tally: Tally, *, connections: int) -> AsyncIterator[None]:
    """Keeps up this load inside the block."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(ask_each, targets, tally, connections=connections))
        yield
        nursery.cancel_scope.cancel()


async def fetch(target: Target, patience: float = 5.0) -> Answer | None:
    """One request on a connection of its own. None when there was no answer."""
    with trio.move_on_after(patience):
        try:
            async with Client.connected(target) as client:
                return await client.get()
        except (OSError, Broken):
            return None
    return None


def _trusting_context() -> ssl.SSLContext:
    # A benchmark makes its certificates for the run, and no authority signs them.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m ops.bench.load", description="Load one URL of this machine and print the figures as JSON."
    )
    parser.add_argument("url")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between a connection's requests")
    parser.add_argument("--header", action="append", default=[], metavar="NAME: VALUE")
    options = parser.parse_args(arguments)
    headers = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in options.header)}
    tally = Tally()

    async def run() -> None:
        await drive(
            Target.parse(options.url, headers), tally, connections=options.connections, seconds=options.seconds, pause=options.pause
        )

    trio.run(run)
    print(json.dumps(asdict(tally.summary())))


if __name__ == "__main__":
    main(sys.argv[1:])
