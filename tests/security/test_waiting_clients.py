"""Waiting clients: slow senders, slow readers, many idle connections and thousands of header lines. Other clients are still answered, and
health checks always are.

The whole application runs behind the real server, with the product's own settings, only smaller. Refusals depend on counts, not on how busy
the machine is. `python -m ops.bench waiting idle` measures the latency of other clients under attack.
"""

import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from core.frozen import replace
from entrypoints import daemon
from entrypoints.bootstrap import Postern
from entrypoints.http.application import PosternApplication
from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes import ROUTES
from entrypoints.http.server import connection
from entrypoints.http.server.heads import RequestHead
from entrypoints.settings import read
from tests.http import examples
from tests.http.conftest import NOWHERE, SETTINGS, postern_on
from tests.http.running_server import RunningServer, running, until

ALL = Endpoints([*ROUTES, *Endpoints.of(examples)])
HOST = b"Host: postern.test\r\n"
ATTACKER = "127.0.0.2"
MOST_REQUESTS = 20
SMALLER = {"POSTERN_MOST_REQUESTS": str(MOST_REQUESTS), "POSTERN_MOST_CONNECTIONS": "200", "POSTERN_CONNECTIONS_PER_ADDRESS": "100"}

SLOW_CALL = b"POST /orders HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
SLOW_CHUNKS = b"POST /orders HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"
SLOW_PAGE = (
    b"POST /ui/reset-password HTTP/1.1\r\n"
    + HOST
    + b"Origin: null\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nt"
)
# So many answers at once that the kernel's buffers cannot hold them for a client that does not read.
UNREAD = (b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n") * 40
UNREAD_PAGES = (b"GET /docs/platform HTTP/1.1\r\n" + HOST + b"\r\n") * 300


@pytest.fixture
async def lonely(tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(NOWHERE, tmp_path) as opened:
        yield opened


@asynccontextmanager
async def product(postern: Postern) -> AsyncIterator[RunningServer]:
    """The server as `postern serve` sets it up."""
    settings = read(SMALLER)
    application = PosternApplication(postern, replace(SETTINGS, rate_limits=False, most_requests=settings.most_requests), ALL)
    async with running(application, replace(daemon.server_settings(settings), drain=0.1)) as server:
        yield server


async def statuses(server: RunningServer, paths: Sequence[str], source: str | None = None) -> set[int]:
    return {(await server.ask(b"GET %b HTTP/1.1\r\n" % path.encode() + HOST + b"\r\n", source)).status for path in paths}


def in_flight(postern: Postern) -> int:
    page = postern.foundation.metrics.render().decode()
    return int(float(page.partition("\nsso_http_requests_in_flight ")[2].partition("\n")[0]))


@pytest.mark.parametrize(
    "sent",
    [SLOW_CALL, SLOW_CHUNKS, SLOW_PAGE, UNREAD, UNREAD_PAGES],
    ids=["slow bodies", "slow chunks", "slow forms of pages", "answers not read", "pages not read"],
)
@pytest.mark.parametrize("source", [None, ATTACKER], ids=["own address", "another address"])
async def test_others_are_answered_however_many_clients_are_waited_for(lonely: Postern, sent: bytes, source: str | None) -> None:
    # More than twice the number of requests that may be worked on at once.
    count = MOST_REQUESTS * 5 // 2
    async with product(lonely) as server:
        for _ in range(count):
            client = await server.connect(source)
            await client.send(sent)
        await until(partial(_all_came, server, lonely))
        assert await statuses(server, ["/orders", "/openapi.json", "/docs"] * 5) == {200}
        assert await statuses(server, ["/health", "/health/live"] * 5, source) == {200}
        assert await statuses(server, ["/health/ready"]) == {503}, "not the database's absence"


def _all_came(server: RunningServer, postern: Postern) -> bool:
    """Whether every client has its outcome: the server waits for the client, has given it up, or has refused it at once."""
    refused = sum(_first_bytes(stream.socket).startswith(b"HTTP/1.1 503") for stream in server.opened)
    return in_flight(postern) + len(server.closed) + refused >= len(server.opened)


def _first_bytes(connection: trio.socket.SocketType) -> bytes:
    """The bytes that the client would read next, without taking them."""
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        try:
            return same.recv(12, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return b""


async def test_of_one_address_so_many_are_waited_for_and_the_rest_is_cut_off(lonely: Postern) -> None:
    async with product(lonely) as server:
        for _ in range(MOST_REQUESTS):
            client = await server.connect(ATTACKER)
            await client.send(SLOW_CALL)
        await until(lambda: len(server.closed) == MOST_REQUESTS * 3 // 4)
        assert set(server.closed) == {"crowded_out"}
        assert in_flight(lonely) == MOST_REQUESTS // 4


async def test_an_idle_crowd_from_one_address_locks_nobody_out(lonely: Postern) -> None:
    async with product(lonely) as server:
        for _ in range(250):
            await server.connect(ATTACKER)
        assert await statuses(server, ["/orders", "/health/live"] * 5) == {200}
        # A client that shares the attacker's address, like a probe behind the same NAT, still gets answers to health checks.
        assert await statuses(server, ["/health", "/health/live"] * 5, ATTACKER) == {200}
        assert set(server.closed) == {"made_room"}
        assert len(server.closed) > 150


async def test_an_idle_crowd_from_many_addresses_gives_way_to_newcomers(lonely: Postern) -> None:
    async with product(lonely) as server:
        for number in range(250):
            await server.connect(f"127.0.1.{number % 100 + 1}")
        assert await statuses(server, ["/orders", "/health/live"] * 5) == {200}
        assert set(server.closed) == {"made_room"}


async def test_thousands_of_header_lines_are_refused_before_any_is_parsed(lonely: Postern, monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[bytes] = []

    class Counted(RequestHead):
        def __init__(self, section: bytes) -> None:
            heads.append(section)
            super().__init__(section)

    monkeypatch.setattr(connection, "RequestHead", Counted)
    async with product(lonely) as server:
        client = await server.connect()
        assert (await client.ask(b"GET /health/live HTTP/1.1\r\n" + HOST + b"\r\n")).status == 200
        assert (await client.ask(b"GET /health/live HTTP/1.1\r\n" + HOST + b"a:\r\n" * 3_900 + b"\r\n")).status == 431
    assert len(heads) == 1
