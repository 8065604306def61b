"""A server of ours on loopback, and a client that sees every byte."""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Self

import h11
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from entrypoints.http.server.heads import Scope
from entrypoints.http.server.protocol import Application, Message
from entrypoints.http.server.serving import ServerSettings, serve
from tests.patience import PATIENCE

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Handler = Callable[[Scope, Receive, Send], Awaitable[None]]

GET = b"GET / HTTP/1.1\r\nHost: postern.test\r\n\r\n"


def application(handler: Handler) -> Application:
    """A plain ASGI application of one handler, with the lifespan that ASGI demands."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for stage in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{stage}.complete"})
            return
        await handler(scope, receive, send)

    return call


async def answer(send: Send, body: bytes = b"ok", status: int = 200, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


async def whole_body(receive: Receive) -> bytes | None:
    """The whole body of a request. None when the client left before the end of the body."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message["body"]
        more = message["more_body"]
    return bytes(body)


async def greet(_scope: Scope, _receive: Receive, send: Send) -> None:
    await answer(send)


async def echo(_scope: Scope, receive: Receive, send: Send) -> None:
    body = await whole_body(receive)
    if body is not None:
        await answer(send, body)


@dataclass(frozen=True, slots=True)
class WireAnswer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class WireClient:
    """One connection to the server. h11 checks that every answer is well formed."""

    stream: trio.abc.Stream
    _parser: h11.Connection = field(default_factory=lambda: h11.Connection(h11.CLIENT))

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def ask(self, data: bytes = GET) -> WireAnswer:
        """Sends a request as these bytes and reads the answer."""
        await self.send(data)
        return await self.answer(data.partition(b" ")[0])

    async def answer(self, method: bytes = b"GET") -> WireAnswer:
        # The test sends its own bytes, but the parser must believe that it made the request itself.
        if self._parser.our_state is h11.DONE:
            self._parser.start_next_cycle()
        self._parser.send(h11.Request(method=method, target="/", headers=[("host", "postern.test")]))
        self._parser.send(h11.EndOfMessage())
        head: h11.Response | None = None
        body = bytearray()
        while True:
            event = self._parser.next_event()
            if event is h11.NEED_DATA:
                self._parser.receive_data(bytes(await self.stream.receive_some()))
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                return WireAnswer(head.status_code, {name.decode(): value.decode() for name, value in head.headers}, bytes(body))
            else:
                assert isinstance(event, h11.InformationalResponse), f"no answer, but {event}"

    async def raw(self) -> bytes:
        """All bytes up to the end of the stream. A reset counts as the end."""
        data = b""
        try:
            async for piece in self.stream:
                data += piece
        except trio.BrokenResourceError:
            pass
        return data

    async def closed(self) -> bool:
        return await self.raw() == b""


async def until(true: Callable[[], object], patience: float = 60.0) -> None:
    with trio.fail_after(patience):
        while not true():
            await trio.sleep(0.005)


@dataclass(frozen=True, slots=True)
class RunningServer:
    port: int
    shutdown: trio.Event
    finished: trio.Event
    tls: ssl.SSLContext | None
    # Connections that a test leaves open; they are closed when the server has ended.
    opened: list[trio.SocketStream] = field(default_factory=list)
    # The reasons for which the server has refused or closed connections.
    closed: list[str] = field(default_factory=list)

    async def connect(self, source: str | None = None) -> WireClient:
        """Connects from `source`, another address of this machine."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port, local_address=source)
        self.opened.append(stream)
        if self.tls is None:
            return WireClient(stream)
        secure = trio.SSLStream(stream, self.tls, server_hostname="127.0.0.1", https_compatible=True)
        return WireClient(secure)

    async def ask(self, data: bytes = GET, source: str | None = None) -> WireAnswer:
        client = await self.connect(source)
        async with client.stream:
            return await client.ask(data)


@asynccontextmanager
async def running(
    served: Any,
    settings: ServerSettings | None = None,
    *,
    trusted: ssl.SSLContext | None = None,
    address: tuple[str, int] = ("127.0.0.1", 0),
) -> AsyncIterator[RunningServer]:
    """Runs the server during the block. The server must end by itself within a few seconds afterwards."""
    listener = socket.create_server(address, backlog=1024)
    server = RunningServer(listener.getsockname()[1], trio.Event(), trio.Event(), trusted)

    async def run(task_status: trio.TaskStatus[list[str]]) -> None:
        await serve(
            served, [listener], settings or ServerSettings(), shutdown=server.shutdown, closed=server.closed.append, task_status=task_status
        )
        server.finished.set()

    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            try:
                yield server
            except BaseException:
                nursery.cancel_scope.cancel()
                raise
            server.shutdown.set()
            with trio.fail_after(PATIENCE):
                await server.finished.wait()
    finally:
        for stream in server.opened:
            stream.socket.close()


@dataclass(frozen=True, slots=True)
class Certificate:
    certificate: Path
    key: Path

    @classmethod
    def make(cls, directory: Path) -> Self:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "postern.test")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
            .sign(key, hashes.SHA256())
        )
        made = cls(directory / "certificate.pem", directory / "key.pem")
        made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        made.key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        )
        return made

    def trusted(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))
