"""Many clients that make the server wait. Waiting requests do not count as work and have a bound of their own; beyond the bound, the client
that came first is closed first.
"""

import socket
from collections.abc import Sequence
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import trio

from entrypoints.http.server.limits import ServerSettings
from entrypoints.http.server.serving import serve
from tests.http.running_server import (
    GET,
    Certificate,
    Handler,
    Receive,
    RunningServer,
    Send,
    WireClient,
    answer,
    application,
    echo,
    greet,
    running,
    until,
)
from tests.patience import PATIENCE

HOST = b"Host: postern.test\r\n"
SLOW = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n\r\n"
# More bytes than the kernel keeps for a client that does not read.
LARGE = bytes(20_000_000)
OTHER = "127.0.0.2"
THIRD = "127.0.0.3"


async def connected(server: RunningServer, count: int, source: str | None = None, sending: bytes = b"") -> list[WireClient]:
    clients = [await server.connect(source) for _ in range(count)]
    for client in clients:
        await client.send(sending)
    return clients


class Counted:
    """An application that counts the requests that have begun, so that a test can begin them in order."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.begun = 0
        self.application = application(self._handle)

    async def _handle(self, scope: Any, receive: Receive, send: Send) -> None:
        self.begun += 1
        await self._handler(scope, receive, send)

    async def guests(self, server: RunningServer, count: int, source: str | None = None, sending: bytes = SLOW) -> list[WireClient]:
        """Clients whose requests begin one after the other."""
        clients: list[WireClient] = []
        for _ in range(count):
            wanted = self.begun + 1
            clients += await connected(server, 1, source, sending)
            await until(partial(self._has_begun, wanted))
        return clients

    def _has_begun(self, wanted: int) -> bool:
        return self.begun >= wanted


async def send_large(scope: Any, _receive: Receive, send: Send) -> None:
    await answer(send, b"ok" if scope["path"] == "/small" else LARGE)


async def open_ones(clients: Sequence[WireClient]) -> list[int]:
    """The clients that the server has not closed, in their order."""
    opened = []
    for number, client in enumerate(clients):
        with trio.move_on_after(0.05) as waiting:
            await client.raw()
        if waiting.cancelled_caught:
            opened.append(number)
    return opened


async def test_an_address_that_is_full_of_idle_connections_gives_up_its_oldest_for_a_newcomer() -> None:
    async with running(application(greet), ServerSettings(most_connections_per_address=3)) as server:
        guests = await connected(server, 3)
        for client in guests:
            assert (await client.ask()).status == 200
        assert (await guests[0].ask()).status == 200
        assert (await server.ask()).status == 200
        # The first client has sent one more request since.
        assert await open_ones(guests) == [0, 2]
        assert server.closed == ["made_room"]


async def test_an_address_whose_connections_are_all_busy_gets_no_more_and_others_do() -> None:
    release, here = trio.Event(), 0

    async def wait(scope: Any, _receive: Receive, send: Send) -> None:
        nonlocal here
        here += 1
        if scope["client"][0] == OTHER:
            await release.wait()
        await answer(send)

    async with running(application(wait), ServerSettings(most_connections_per_address=2)) as server:
        busy = await connected(server, 2, OTHER, GET)
        await until(lambda: here == 2)
        refused = await (await server.connect(OTHER)).raw()
        assert b" 429 " in refused
        assert b"RATE_LIMIT_EXCEEDED" in refused
        assert server.closed == ["address_full"]
        assert (await server.ask()).status == 200
        release.set()
        for client in busy:
            assert (await client.answer()).status == 200
        assert (await server.ask(source=OTHER)).status == 200


async def test_a_trusted_proxy_may_have_any_number_of_connections() -> None:
    settings = ServerSettings(most_connections_per_address=1, trusted_proxies=(ip_network(f"{OTHER}/32"),))
    async with running(application(greet), settings) as server:
        guests = await connected(server, 5, OTHER)
        for client in guests:
            assert (await client.ask()).status == 200
        assert await open_ones(guests) == [0, 1, 2, 3, 4]


async def test_a_unix_socket_may_have_any_number_of_connections(tmp_path: Path) -> None:
    path, shutdown = str(tmp_path / "socket"), trio.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        async with trio.open_nursery() as nursery:

            async def run(task_status: trio.TaskStatus[list[str]]) -> None:
                settings = ServerSettings(most_connections_per_address=1, most_waiting_per_address=1)
                await serve(application(greet), [listener], settings, shutdown=shutdown, task_status=task_status)

            await nursery.start(run)
            streams = [await trio.open_unix_socket(path) for _ in range(3)]
            for stream in streams:
                async with stream:
                    assert (await WireClient(stream).ask()).status == 200
            shutdown.set()


async def test_a_full_house_closes_idle_connections_of_the_greediest_address_for_a_newcomer() -> None:
    async with running(application(greet), ServerSettings(most_connections=5)) as server:
        modest = await connected(server, 1, THIRD)
        greedy = await connected(server, 4, OTHER)
        for client in (*modest, *greedy):
            assert (await client.ask()).status == 200
        newcomers = await connected(server, 2)
        for client in newcomers:
            assert (await client.ask()).status == 200
        assert await open_ones(greedy) == [2, 3]
        assert await open_ones(modest) == [0]
        assert server.closed == ["made_room"] * 2


async def test_a_body_that_is_waited_for_is_not_work() -> None:
    async with running(application(echo), ServerSettings(most_requests=1)) as server:
        slow = await connected(server, 3, sending=SLOW)
        assert (await server.ask()).status == 200
        for client in slow:
            await client.send(b"body")
            assert (await client.answer(b"POST")).body == b"body"
        assert (await server.ask()).status == 200


async def test_an_answer_that_is_being_read_is_not_work() -> None:
    counted = Counted(send_large)
    async with running(counted.application, ServerSettings(most_requests=1)) as server:
        slow = await counted.guests(server, 3, sending=GET)
        assert (await server.ask(GET.replace(b"/ ", b"/small "))).status == 200
        for client in slow:
            assert len((await client.answer()).body) == len(LARGE)
        assert (await server.ask(GET.replace(b"/ ", b"/small "))).status == 200


async def test_what_comes_after_the_wait_is_work_again() -> None:
    release, begun = trio.Event(), 0

    async def read_and_work(_scope: Any, receive: Receive, send: Send) -> None:
        nonlocal begun
        await receive()
        begun += 1
        await release.wait()
        await answer(send)

    async with running(application(read_and_work), ServerSettings(most_requests=1)) as server:
        (client,) = await connected(server, 1, sending=SLOW)
        await client.send(b"body")
        await until(lambda: begun == 1)
        assert (await server.ask()).status == 503
        release.set()
        assert (await client.answer(b"POST")).status == 200
        assert (await server.ask()).status == 200


async def test_probes_are_answered_however_much_there_is_to_do() -> None:
    release, begun = trio.Event(), 0

    async def wait(scope: Any, _receive: Receive, send: Send) -> None:
        nonlocal begun
        begun += 1
        if scope["path"] == "/":
            await release.wait()
        await answer(send)

    async with running(application(wait), ServerSettings(most_requests=1, probes=frozenset({b"/health"}))) as server:
        (busy,) = await connected(server, 1, sending=GET)
        await until(lambda: begun == 1)
        assert (await server.ask()).status == 503
        assert (await server.ask(GET.replace(b"/ ", b"/health?a=b "))).status == 200
        release.set()
        assert (await busy.answer()).status == 200


@pytest.mark.parametrize(
    "settings",
    [
        ServerSettings(prompt=0, watch_interval=0.01, most_waiting_per_address=3),
        ServerSettings(prompt=0, watch_interval=0.01, most_waiting=4),
    ],
    ids=["of an address", "in all"],
)
async def test_of_too_many_that_are_waited_for_those_go_first_that_have_lasted_longest(settings: ServerSettings) -> None:
    counted = Counted(echo)
    async with running(counted.application, settings) as server:
        modest = await counted.guests(server, 1)
        slow = await counted.guests(server, 6, OTHER)
        await until(lambda: server.closed == ["crowded_out"] * 3)
        for client in slow[:3]:
            assert (await client.answer(b"POST")).status == 408
        for client in (*modest, *slow[3:]):
            await client.send(b"body")
            assert (await client.answer(b"POST")).body == b"body"


async def test_who_was_prompt_so_far_is_spared() -> None:
    async with running(application(echo), ServerSettings(prompt=60, watch_interval=0.01, most_waiting_per_address=1)) as server:
        slow = await connected(server, 5, sending=SLOW)
        await trio.sleep(0.1)
        for client in slow:
            await client.send(b"body")
            assert (await client.answer(b"POST")).body == b"body"
        assert server.closed == []


async def test_readers_are_bounded_like_senders() -> None:
    counted = Counted(send_large)
    settings = ServerSettings(prompt=0, watch_interval=0.01, most_waiting_per_address=1)
    async with running(counted.application, settings) as server:
        guests = await counted.guests(server, 3, sending=GET)
        await until(lambda: server.closed == ["crowded_out"] * 2)
        assert len((await guests[2].answer()).body) == len(LARGE)


async def test_behind_a_proxy_the_bound_is_the_clients() -> None:
    settings = ServerSettings(prompt=0, watch_interval=0.01, most_waiting_per_address=1, trusted_proxies=(ip_network("127.0.0.1/32"),))
    counted = Counted(echo)
    async with running(counted.application, settings) as server:
        clients = []
        for address in (b"192.0.2.1", b"192.0.2.2", b"192.0.2.1"):
            clients += await counted.guests(server, 1, sending=SLOW.replace(b"Content", b"X-Forwarded-For: " + address + b"\r\nContent"))
        await until(lambda: server.closed == ["crowded_out"])
        assert (await clients[0].answer(b"POST")).status == 408
        for client in clients[1:]:
            await client.send(b"body")
            assert (await client.answer(b"POST")).body == b"body"


async def test_a_byte_now_and_then_is_no_pace() -> None:
    # In all there would be a minute.
    settings = ServerSettings(silence=0.3, transfer_patience=60)
    async with running(application(echo), settings) as server, trio.open_nursery() as nursery:
        (client,) = await connected(server, 1, sending=SLOW.replace(b"4", b"1000"))

        async def drip() -> None:
            while True:
                await client.send(b"x")
                await trio.sleep(0.1)

        nursery.start_soon(drip)
        with trio.fail_after(PATIENCE):
            assert (await client.answer(b"POST")).status == 408
        nursery.cancel_scope.cancel()
        assert server.closed == ["slow_body"]


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "over TLS"])
async def test_a_reader_that_takes_next_to_nothing_is_cut_off(tmp_path: Path, secured: bool) -> None:
    certificate = Certificate.make(tmp_path) if secured else None
    settings = ServerSettings(
        silence=0.3,
        transfer_patience=60,
        least_bytes_a_second=1_000_000,
        watch_interval=60,
        certificate=None if certificate is None else certificate.certificate,
        certificate_key=None if certificate is None else certificate.key,
    )
    trusted = None if certificate is None else certificate.trusted()
    async with running(application(send_large), settings, trusted=trusted) as server, trio.open_nursery() as nursery:
        (client,) = await connected(server, 1, sending=GET)

        async def sip() -> None:
            while True:
                await client.stream.receive_some(10)
                await trio.sleep(0.02)

        nursery.start_soon(sip)
        await until(lambda: server.closed == ["slow_reader"])
        nursery.cancel_scope.cancel()


async def test_a_slow_head_is_counted_as_what_it_is() -> None:
    async with running(application(greet), ServerSettings(head_patience=0.1)) as server:
        (client,) = await connected(server, 1, sending=b"GET / HTTP/1.1\r\n")
        assert (await client.answer()).status == 408
        assert server.closed == ["slow_head"]
