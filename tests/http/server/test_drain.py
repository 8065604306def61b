"""The orderly end: no new client gets in, and every client that is in gets its answer."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from hypercorn.config import Config

from entrypoints.http.server import connection as connections
from entrypoints.http.server.connection import ClientConnection, Worker
from entrypoints.http.server.limits import ServerSettings
from entrypoints.http.server.protocol import Application
from tests.conftest import CapturedLog
from tests.http.running_server import GET, Receive, RunningServer, Send, WireClient, answer, application, greet, running, until
from tests.patience import PATIENCE

HOST = b"Host: postern.test\r\n"


class Slow:
    """An application that answers when the test lets it."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.go_on = trio.Event()

    async def __call__(self, _scope: Any, _receive: Receive, send: Send) -> None:
        self.begun.set()
        await self.go_on.wait()
        await answer(send)


async def test_a_request_in_flight_is_finished_and_the_connection_closed() -> None:
    slow = Slow()
    async with running(application(slow)) as server:
        client = await server.connect()
        await client.send(GET)
        await slow.begun.wait()
        server.shutdown.set()
        await trio.sleep(0.2)
        slow.go_on.set()
        got = await client.answer()
        assert (got.status, got.headers["connection"]) == (200, "close")
        assert await client.closed()
        await server.finished.wait()


async def test_idle_connections_are_closed_after_a_last_call() -> None:
    async with running(application(greet)) as server:
        client = await server.connect()
        await client.ask()
        server.shutdown.set()
        with trio.fail_after(PATIENCE):
            assert await client.closed()
            await server.finished.wait()


async def test_a_request_that_was_on_its_way_to_an_idle_connection_is_served() -> None:
    async with running(application(greet)) as server:
        client = await server.connect()
        await client.ask()
        server.shutdown.set()
        await trio.sleep(0.2)
        await client.send(GET)
        got = await client.answer()
        assert (got.status, got.headers["connection"]) == (200, "close")
        assert await client.closed()


@asynccontextmanager
async def one_connection(served: Application) -> AsyncIterator[tuple[ClientConnection, socket.socket]]:
    """A connection without its server, which a test can end at an exact instant; and the client's side of it."""
    worker = Worker(served, ServerSettings(), Config())
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        accepted, _ = listener.accept()
        accepted.setblocking(False)
        client.setblocking(False)
        connection = ClientConnection(worker, accepted, trio.SocketStream(trio.socket.from_stdlib_socket(accepted)), "http")
        worker.connections.enter(connection, None)
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.run)
                yield connection, client


async def received(client: socket.socket, ending: bytes = b"ok") -> bytes:
    data = b""
    while not data.endswith(ending):
        await trio.lowlevel.wait_readable(client)
        piece = client.recv(4096)
        assert piece, f"closed after {data!r}"
        data += piece
    return data


async def test_a_request_that_has_arrived_on_an_idle_connection_is_served() -> None:
    async with one_connection(application(greet)) as (connection, client):
        client.send(GET)
        await received(client)
        await trio.testing.wait_all_tasks_blocked()
        client.send(GET)
        connection.worker.draining = True
        connection.wind_up()
        assert b"connection: close" in await received(client)


async def test_a_request_that_stands_in_line_at_the_end_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine the line may take longer than the last call, which is for clients that have not asked.
    monkeypatch.setattr(connections, "_LAST_CALL", 0.0)
    async with one_connection(application(greet)) as (connection, client):
        rounds = connection.worker.rounds
        monkeypatch.setattr(rounds, "is_full", lambda: True)
        client.send(GET)
        await until(lambda: bool(rounds._line))
        connection.worker.draining = True
        connection.wind_up()
        await trio.testing.wait_all_tasks_blocked(0.01)
        rounds._line.unpark()
        assert b"connection: close" in await received(client)


async def test_a_pipelined_request_is_served() -> None:
    # In about half of the attempts the scheduler lets the end fall between the two requests.
    for _ in range(6):
        async with trio.open_nursery() as nursery:

            async def wind_up(connection: ClientConnection) -> None:
                connection.worker.draining = True
                connection.wind_up()

            async def first_winds_up(scope: Any, _receive: Receive, send: Send) -> None:
                await answer(send, scope["path"].encode())
                if scope["path"] == "/1":
                    nursery.start_soon(wind_up, connection)

            async with one_connection(application(first_winds_up)) as (connection, client):
                client.send(GET.replace(b"/ ", b"/1 ") + GET.replace(b"/ ", b"/2 "))
                await received(client, b"/2")


async def test_connections_in_the_backlog_are_served() -> None:
    async with running(application(greet)) as server:
        waiting = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(30)]
        for client in waiting:
            client.sendall(GET)
        server.shutdown.set()
        await server.finished.wait()
        for client in waiting:
            with client:
                assert client.recv(4096).endswith(b"ok")


async def test_a_connection_that_has_not_asked_yet_may_still_do_so() -> None:
    async with running(application(greet)) as server:
        client = await server.connect()
        await trio.sleep(0.05)
        server.shutdown.set()
        await trio.sleep(0.1)
        assert (await client.ask()).headers["connection"] == "close"


async def test_new_connections_are_refused_meanwhile() -> None:
    slow = Slow()
    async with running(application(slow)) as server:
        client = await server.connect()
        await client.send(GET)
        await slow.begun.wait()
        server.shutdown.set()
        await trio.sleep(0.05)
        try:
            await trio.open_tcp_stream("127.0.0.1", server.port)
        except OSError:
            refused = True
        else:
            refused = False
        assert refused
        slow.go_on.set()
        assert (await client.answer()).status == 200


async def test_what_does_not_finish_in_time_is_cut_short(log: CapturedLog) -> None:
    endless = Slow()
    async with running(application(endless), ServerSettings(drain=0.3)) as server:
        client = await server.connect()
        await client.send(GET)
        await endless.begun.wait()
        server.shutdown.set()
        with trio.fail_after(3):
            assert await client.closed()
            await server.finished.wait()
    assert len(log.events("drain_cut_short")) == 1


async def test_under_load_no_accepted_request_fails() -> None:
    served = 0
    failures: list[str] = []

    async def work(_scope: Any, _receive: Receive, send: Send) -> None:
        nonlocal served
        await trio.sleep(0.002)
        served += 1
        await answer(send)

    async with running(application(work)) as server, trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(_keep_asking, server, failures, number % 2 == 0)
        await until(lambda: served > 200)
        server.shutdown.set()
        with trio.fail_after(PATIENCE):
            await server.finished.wait()
        nursery.cancel_scope.cancel()
    assert failures == []


async def _keep_asking(server: RunningServer, failures: list[str], reuse: bool) -> None:
    """A client that behaves like a proxy: an outcome after which it may safely try again is no failure; any other is."""
    client: WireClient | None = None
    fresh = True
    while True:
        if client is None:
            try:
                client = await server.connect()
            except OSError:
                return
            fresh = True
        try:
            await client.send(GET)
            data = await client.stream.receive_some()
        except trio.BrokenResourceError:
            data = b""
        if not data and fresh:
            failures.append("a fresh connection was closed without an answer")
            return
        if data and not data.endswith(b"ok"):
            failures.append(f"half an answer: {data!r}")
        fresh = False
        if not data or not reuse or b"connection: close" in data:
            await client.stream.aclose()
            client = None
