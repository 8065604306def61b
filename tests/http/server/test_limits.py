"""Slow, idle, large or many clients: each is bounded, and other clients do not notice."""

import json
import subprocess
import sys
import textwrap
from typing import Any

import pytest
import trio
from quart_trio import QuartTrio

from entrypoints.http.server.limits import ServerSettings
from tests.http.running_server import GET, Receive, RunningServer, Send, answer, application, echo, greet, running, until
from tests.patience import PATIENCE, SOONER

HOST = b"Host: postern.test\r\n"


def quart_greeting() -> Any:
    quart = QuartTrio(__name__)

    @quart.get("/")
    async def root() -> str:
        return "ok"

    return quart


@pytest.mark.parametrize("served", [application(greet), quart_greeting()], ids=["plain", "quart"])
async def test_idle_connections_are_closed_in_time(served: Any) -> None:
    async with running(served, ServerSettings(keep_alive=0.5)) as server:
        clients, began = [], 0.0
        for _ in range(40):
            began = trio.current_time()
            clients.append(client := await server.connect())
            assert (await client.ask()).status == 200
        with trio.fail_after(SOONER):
            for client in clients:
                assert await client.closed()
        assert trio.current_time() - began > 0.3


async def test_a_connection_that_never_asks_is_closed_in_time() -> None:
    async with running(application(greet), ServerSettings(keep_alive=0.2)) as server:
        client = await server.connect()
        with trio.fail_after(SOONER):
            assert await client.closed()


async def test_a_slow_request_may_take_longer_than_an_idle_connection() -> None:
    async def slow(_scope: Any, _receive: Receive, send: Send) -> None:
        await trio.sleep(1.5)
        await answer(send)

    async with running(application(slow), ServerSettings(keep_alive=0.7, head_patience=0.7, watch_interval=0.05)) as server:
        assert (await server.ask()).status == 200


async def test_a_head_that_comes_byte_by_byte_is_cut_off() -> None:
    async with running(application(greet), ServerSettings(head_patience=0.3)) as server, trio.open_nursery() as nursery:
        client = await server.connect()

        async def drip() -> None:
            for byte in GET:
                await client.send(bytes([byte]))
                await trio.sleep(0.05)

        nursery.start_soon(drip)
        with trio.fail_after(SOONER):
            assert (await client.answer()).status == 408
        nursery.cancel_scope.cancel()


async def test_a_body_that_pauses_too_long_is_cut_off() -> None:
    async with running(application(echo), ServerSettings(silence=0.2)) as server:
        client = await server.connect()
        with trio.fail_after(SOONER):
            got = await client.ask(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n\r\nbo")
        assert (got.status, json.loads(got.body)["error_code"]) == (408, "BAD_REQUEST")


async def test_a_body_that_drips_is_cut_off() -> None:
    settings = ServerSettings(silence=0.2, transfer_patience=0.4, least_bytes_a_second=1000)
    async with running(application(echo), settings) as server, trio.open_nursery() as nursery:
        client = await server.connect()
        await client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n")

        async def drip() -> None:
            while True:
                await client.send(b"x")
                await trio.sleep(0.05)

        nursery.start_soon(drip)
        with trio.fail_after(SOONER):
            assert (await client.answer(b"POST")).status == 408
        nursery.cancel_scope.cancel()


async def test_a_body_that_earns_its_time_is_waited_for() -> None:
    # The first part earns the time for the others, however busy the machine is.
    settings = ServerSettings(transfer_patience=0.2, least_bytes_a_second=10)
    async with running(application(echo), settings) as server, trio.open_nursery() as nursery:
        client = await server.connect()
        await client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n" + b"x" * 100)

        async def flow() -> None:
            for _ in range(9):
                await trio.sleep(0.05)
                await client.send(b"x" * 100)

        nursery.start_soon(flow)
        assert (await client.answer(b"POST")).status == 200


async def test_a_client_that_does_not_read_loses_its_connection() -> None:
    ended = trio.Event()

    async def endless(_scope: Any, _receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": bytes(65536), "more_body": True})
        finally:
            ended.set()

    async with running(application(endless), ServerSettings(silence=0.2, watch_interval=10)) as server:
        client = await server.connect()
        await client.send(GET)
        with trio.fail_after(SOONER):
            await ended.wait()


async def test_a_large_answer_to_a_client_that_reads_arrives_whole() -> None:
    async def large(_scope: Any, _receive: Receive, send: Send) -> None:
        await answer(send, bytes(20_000_000))

    async with running(application(large), ServerSettings(silence=SOONER)) as server:
        assert len((await server.ask()).body) == 20_000_000


async def test_connections_beyond_the_limit_are_turned_away_when_none_is_idle() -> None:
    release, here = trio.Event(), 0

    async def wait(_scope: Any, _receive: Receive, send: Send) -> None:
        nonlocal here
        here += 1
        await release.wait()
        await answer(send)

    async with running(application(wait), ServerSettings(most_connections=2)) as server:
        busy = [await server.connect(), await server.connect()]
        for client in busy:
            await client.send(GET)
        await until(lambda: here == 2)
        answered = await (await server.connect()).raw()
        assert b" 503 " in answered
        assert b"retry-after: 1" in answered
        assert server.closed == ["process_full"]
        release.set()
        for client in busy:
            assert (await client.answer()).status == 200
        assert (await server.ask()).status == 200


async def test_requests_beyond_the_limit_are_refused() -> None:
    here, release = trio.Event(), trio.Event()

    async def wait(scope: Any, _receive: Receive, send: Send) -> None:
        if scope["path"] == "/wait":
            here.set()
            await release.wait()
        await answer(send)

    async with running(application(wait), ServerSettings(most_requests=1)) as server:
        busy = await server.connect()
        await busy.send(b"GET /wait HTTP/1.1\r\n" + HOST + b"\r\n")
        await here.wait()
        other = await server.connect()
        refused = await other.ask()
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        release.set()
        assert (await busy.answer()).status == 200
        assert (await other.ask()).status == 200


async def _crowd(server: RunningServer, idle: int, slow: int) -> None:
    for number in range(idle + slow):
        client = await server.connect()
        if number >= idle:
            await client.send(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")


async def test_a_crowd_of_idle_and_slow_clients_does_not_keep_others_waiting() -> None:
    async with running(application(greet), ServerSettings(keep_alive=3.0, head_patience=2.0)) as server:
        await _crowd(server, idle=400, slow=50)
        began = trio.current_time()
        assert (await server.ask()).status == 200
        assert trio.current_time() - began < 1.5
        with trio.fail_after(SOONER):
            for stream in server.opened[:450]:
                async for _ in stream:
                    pass


def test_running_out_of_descriptors_is_survived() -> None:
    """Runs in a process of its own, since the limit counts for the process."""
    script = textwrap.dedent("""
        import resource, socket, trio
        from tests.http.running_server import GET, application, greet, running

        async def main():
            async with running(application(greet)) as server:
                # All of them wait in the backlog: nothing is accepted before this task waits.
                clients = [socket.create_connection(("127.0.0.1", server.port), timeout=2) for _ in range(20)]
                last = clients[-1].fileno()
                resource.setrlimit(resource.RLIMIT_NOFILE, (last + 6, last + 6))
                await trio.sleep(0.25)
                for client in clients[:19]:
                    client.close()
                clients[-1].sendall(GET)
                assert await trio.to_thread.run_sync(clients[-1].recv, 4096)
                clients[-1].close()
                assert (await server.ask()).status == 200
        trio.run(main)
    """)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("accept_failed") == 1
    assert "EMFILE" in ran.stdout
