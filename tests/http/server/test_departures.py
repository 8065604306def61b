"""Clients that leave in the middle of their request, of their wait, or of their answer. Their work is cancelled, and the server goes on."""

import socket
import struct
from typing import Any

import pytest
import trio
from quart_trio import QuartTrio

from entrypoints.http.server.limits import ServerSettings
from entrypoints.http.server.protocol import FINISH, Application
from tests.http.running_server import GET, Certificate, Receive, Send, WireClient, answer, application, echo, running, until
from tests.patience import PATIENCE
from tests.tools import place_of

HOST = b"Host: postern.test\r\n"
SOON = ServerSettings(watch_interval=0.05)


async def leave(client: WireClient) -> None:
    await client.stream.aclose()


async def reset(client: WireClient) -> None:
    assert isinstance(client.stream, trio.SocketStream)
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await client.stream.aclose()


class Waiting:
    """A handler that waits for ever, and tells when it begins and when it is cancelled."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.cancelled = trio.Event()

    async def wait(self) -> None:
        self.begun.set()
        try:
            await trio.sleep_forever()
        finally:
            self.cancelled.set()

    def plain(self) -> Application:
        async def handle(_scope: Any, _receive: Receive, _send: Send) -> None:
            await self.wait()

        return application(handle)

    def quart(self) -> Any:
        quart = QuartTrio(__name__)

        @quart.get("/")
        async def root() -> str:
            await self.wait()
            return ""

        return quart

    def streaming(self) -> Application:
        async def handle(_scope: Any, _receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begin", "more_body": True})
            await self.wait()

        return application(handle)


@pytest.mark.parametrize("kind", ["plain", "quart", "streaming"])
@pytest.mark.parametrize("go", [leave, reset])
async def test_a_client_that_hangs_up_cancels_the_handler(kind: str, go: Any) -> None:
    waiting = Waiting()
    async with running(getattr(waiting, kind)(), SOON) as server:
        client = await server.connect()
        await client.send(GET)
        await waiting.begun.wait()
        await go(client)
        with trio.fail_after(PATIENCE):
            await waiting.cancelled.wait()


async def test_a_client_that_hangs_up_behind_a_pipelined_request_cancels_the_handler() -> None:
    waiting = Waiting()
    async with running(waiting.plain(), SOON) as server:
        client = await server.connect()
        await client.send(GET)
        await waiting.begun.wait()
        await client.send(GET)
        await client.stream.aclose()
        with trio.fail_after(PATIENCE):
            await waiting.cancelled.wait()


@pytest.mark.parametrize("go", [leave, reset])
async def test_what_wants_to_be_finished_is_although_the_client_hangs_up(go: Any) -> None:
    begun, finished = trio.Event(), trio.Event()

    async def handle(scope: Any, _receive: Receive, send: Send) -> None:
        scope["extensions"][FINISH]()
        begun.set()
        await trio.sleep(0.6)
        finished.set()
        await answer(send)

    async with running(application(handle), SOON) as server:
        client = await server.connect()
        await client.send(GET)
        await begun.wait()
        await go(client)
        with trio.fail_after(PATIENCE):
            await finished.wait()


async def test_what_wants_to_be_finished_is_cancelled_when_the_server_ends() -> None:
    waiting = Waiting()

    async def handle(scope: Any, _receive: Receive, _send: Send) -> None:
        scope["extensions"][FINISH]()
        await waiting.wait()

    async with running(application(handle), ServerSettings(watch_interval=0.05, drain=0.1)) as server:
        client = await server.connect()
        await client.send(GET)
        await waiting.begun.wait()
        await leave(client)
    assert waiting.cancelled.is_set()


async def test_the_next_request_of_a_connection_is_not_finished_unless_it_wants_to_be() -> None:
    waiting = Waiting()

    async def handle(scope: Any, _receive: Receive, send: Send) -> None:
        if scope["path"] == "/next":
            await waiting.wait()
        scope["extensions"][FINISH]()
        await answer(send)

    async with running(application(handle), SOON) as server:
        client = await server.connect()
        await client.ask()
        await client.send(GET.replace(b" / ", b" /next "))
        await waiting.begun.wait()
        await leave(client)
        with trio.fail_after(PATIENCE):
            await waiting.cancelled.wait()


async def test_a_client_that_stays_is_not_cancelled() -> None:
    async def slow(_scope: Any, _receive: Receive, send: Send) -> None:
        await trio.sleep(0.3)
        await answer(send)

    async with running(application(slow), SOON) as server:
        assert (await server.ask()).status == 200


@pytest.mark.parametrize("go", [leave, reset])
async def test_a_client_that_leaves_within_its_body_is_told_of(go: Any) -> None:
    begun = trio.Event()
    heard: list[str] = []

    async def listen(_scope: Any, receive: Receive, _send: Send) -> None:
        begun.set()
        while (message := await receive())["type"] == "http.request":
            pass
        heard.append(message["type"])

    async with running(application(listen)) as server:
        client = await server.connect()
        await client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\npart")
        await begun.wait()
        await go(client)
        await until(lambda: heard)
    assert heard == ["http.disconnect"]


@pytest.mark.parametrize("go", [leave, reset])
@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", GET, GET * 20, b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"]
)
async def test_clients_that_leave_at_any_point_do_not_end_the_server(sent: bytes, go: Any) -> None:
    async with running(application(echo)) as server:
        for _ in range(20):
            client = await server.connect()
            if sent:
                await client.send(sent)
            await go(client)
        assert (await server.ask()).status == 200


@pytest.mark.parametrize("secure", [False, True], ids=["plain port", "TLS"])
async def test_h2load_clients_that_leave_in_the_middle_do_not_end_the_server(tmp_path: Any, *, secure: bool) -> None:
    h2load = place_of("h2load")
    made = Certificate.make(tmp_path)
    settings = ServerSettings(certificate=made.certificate, certificate_key=made.key) if secure else ServerSettings()
    quart = QuartTrio(__name__)

    @quart.get("/")
    async def root() -> str:
        await trio.sleep(0.01)
        return "ok" * 1000

    async with running(quart, settings, trusted=made.trusted() if secure else None) as server:
        for version in ("h2", "http/1.1") * 5:
            # A client that leaves with unread answers under way.
            address = f"{'https' if secure else 'http'}://127.0.0.1:{server.port}/"
            command = [h2load, "-n", "100000", "-c", "8", "-m", "10", *(["--h1"] if version == "http/1.1" else []), address]
            with trio.move_on_after(0.15):
                await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
            assert (await server.ask()).status == 200
