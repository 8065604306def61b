"""Clients, alone or in crowds, make the server wait. The cases measure how others suffer. Attackers use another address of this machine."""

import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from ops.bench import processes
from ops.bench.filling.fill import fill
from ops.bench.harness import Options, Server, Skipped, directory, generate, serving
from ops.bench.inside import bearer
from ops.bench.load import Summary, Tally, Target
from ops.bench.report import Figure, at_least, at_most

ATTACKER: Final = "127.0.0.2"
SENDERS: Final = 520
READERS: Final = 260
PAGES: Final = 1040
IDLERS: Final = 12_050
# Seconds between two bytes, sent or read.
PAUSE: Final = 4.0
_HOST: Final = b"Host: localhost\r\n"
_SLOW_CALL: Final = b"POST /api/auth/login HTTP/1.1\r\n" + _HOST + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
_SLOW_FORM: Final = (
    b"POST /ui/reset-password HTTP/1.1\r\n"
    + _HOST
    + b"Origin: null\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\n"
)
# An answer that is too large for the kernel's buffers.
_UNREAD: Final = (b"GET /openapi.json HTTP/1.1\r\n" + _HOST + b"\r\n") * 30

Attack = Callable[[int], Awaitable[None]]


@dataclass(slots=True)
class Besieged:
    """The answers to others, and to probes from the attackers' own address."""

    others: Summary
    health: Tally


async def waiting(options: Options) -> Sequence[Figure]:
    """520 connections that send a body at a byte every 4 s, then 260 that read answers as slowly, then 1 040 slow forms of pages. Attackers
    return after the server cuts them off. Meanwhile others ask who they are, with a pause of 5 ms between a connection's requests.
    """
    figures = []
    with _open_files(PAGES + 500), directory() as place:
        async with serving(place) as server:
            target = await _who_am_i(server)
            for name, count, attack in (
                ("slow bodies", SENDERS, partial(_send_slowly, _SLOW_CALL)),
                ("slow readers", READERS, _read_slowly),
                ("slow forms", PAGES, partial(_send_slowly, _SLOW_FORM)),
            ):
                # Each round measures one right after the other, so other work on the machine affects both.
                alone = await _others(target, options)
                async with _attackers(server, count, attack):
                    met = await _besieged(server, target, options)
                figures += _figures(name, alone, met)
                figures.append(Figure(f"{name}: resident", server.resident(), "MiB", at_most(400)))
    return figures


async def idle(options: Options) -> Sequence[Figure]:
    """12 050 connections from one address that never send a request. Others want answers while these connections arrive and stay."""
    with _open_files(IDLERS + 500), directory() as place:
        async with serving(place) as server:
            target = await _who_am_i(server)
            alone = await _others(target, options)
            came = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_idle_crowd, server.port, came)
                during = await _besieged(server, target, options)
                await came.wait()
                # Wait until the server has closed the last surplus connection.
                await trio.sleep(2)
                met = await _besieged(server, target, options)
                held = processes.descriptors(server.pid)
                nursery.cancel_scope.cancel()
    return [
        *_figures("an idle crowd", alone, met),
        Figure("while it comes: latency of others, 99th percentile", during.others.p99 * 1e3, "ms"),
        Figure("while it comes: others refused or failed", during.others.failures, bar=at_most(0)),
        Figure("while it comes: health refused or failed", _failed(during.health), bar=at_most(0)),
        Figure("open descriptors meanwhile", held, bar=at_most(2_100)),
    ]


def _figures(name: str, alone: Summary, met: Besieged) -> list[Figure]:
    return [
        Figure(f"{name}: latency of others alone, 99th percentile", alone.p99 * 1e3, "ms"),
        Figure(f"{name}: latency of others, 99th percentile", met.others.p99 * 1e3, "ms"),
        Figure(f"{name}: against alone", met.others.p99 / alone.p99, bar=at_most(2)),
        Figure(f"{name}: others refused or failed", met.others.failures, bar=at_most(0)),
        Figure(f"{name}: others answered", met.others.requests, bar=at_least(100)),
        Figure(f"{name}: health refused or failed", _failed(met.health), bar=at_most(0)),
    ]


def _failed(tally: Tally) -> int:
    return tally.summary().failures


async def _who_am_i(server: Server) -> Target:
    person = (await trio.to_thread.run_sync(fill, server.database_url, 100))[0]
    return server.target("/api/user", await bearer(server, person))


async def _others(target: Target, options: Options) -> Summary:
    """In a process of their own."""
    return await generate(target, 4, options.seconds, pause=0.005)


async def _besieged(server: Server, target: Target, options: Options) -> Besieged:
    health = Tally()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_probe, server.port, health)
        others = await _others(target, options)
        nursery.cancel_scope.cancel()
    return Besieged(others, health)


async def _probe(port: int, tally: Tally) -> None:
    """`/health/live` over a new connection each time, from the attackers' address."""
    while True:
        status = 0
        with suppress(OSError, trio.BrokenResourceError), trio.move_on_after(5):
            async with await trio.open_tcp_stream("127.0.0.1", port, local_address=ATTACKER) as stream:
                await stream.send_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                status = int((await stream.receive_some(4096)).split()[1])
        tally.statuses[status] += 1
        await trio.sleep(0.05)


@asynccontextmanager
async def _attackers(server: Server, count: int, attack: Attack) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(_again_and_again, server.port, attack)
        # By then, the first attackers have begun and the last ones have connected.
        await trio.sleep(2)
        yield
        nursery.cancel_scope.cancel()


async def _again_and_again(port: int, attack: Attack) -> None:
    while True:
        with suppress(OSError, trio.BrokenResourceError):
            await attack(port)
        await trio.sleep(0.5)


async def _send_slowly(head: bytes, port: int) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", port, local_address=ATTACKER) as stream:
        await stream.send_all(head)
        while True:
            await stream.send_all(b"x")
            await trio.sleep(PAUSE)


async def _read_slowly(port: int) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", port, local_address=ATTACKER) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await stream.send_all(_UNREAD)
        while True:
            if not await stream.receive_some(1):
                return
            await trio.sleep(PAUSE)


async def _idle_crowd(port: int, came: trio.Event) -> None:
    slots = trio.Semaphore(100)
    here = 0

    async def one() -> None:
        nonlocal here
        async with slots:
            stream = await trio.open_tcp_stream("127.0.0.1", port, local_address=ATTACKER)
        here += 1
        if here == IDLERS:
            came.set()
        async with stream:
            with suppress(trio.BrokenResourceError):
                await stream.receive_some(1)

    async with trio.open_nursery() as nursery:
        for _ in range(IDLERS):
            nursery.start_soon(one)


@contextmanager
def _open_files(wanted: int) -> Iterator[None]:
    """The server inherits the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise Skipped(f"this machine allows {hard} open files, {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
