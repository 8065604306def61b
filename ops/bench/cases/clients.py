"""Clients that idle, leave or send slowly must not cost the others much."""

import resource
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from ops.bench import processes
from ops.bench.harness import Options, Server, Skipped, directory, serving, tool
from ops.bench.load import Broken, Client, Tally, drive, percentile
from ops.bench.report import Figure, at_least, at_most

IDLE: Final = 5000
SLOW: Final = 500


async def keepalive(_options: Options) -> Sequence[Figure]:
    """40 connections that make one request and then nothing, with a keep-alive time-out of 2 s."""
    closed: list[float] = []
    with directory() as place:
        async with serving(place, settings={"POSTERN_KEEP_ALIVE": "2s"}) as server:

            async def idler() -> None:
                async with Client.connected(server.target("/health/live")) as client:
                    await client.get()
                    began = trio.current_time()
                    await client.ended()
                    closed.append(trio.current_time() - began)

            with trio.move_on_after(10):
                async with trio.open_nursery() as nursery:
                    for _ in range(40):
                        nursery.start_soon(idler)
    return [
        Figure("connections closed by the server, of 40", len(closed), bar=at_least(40)),
        Figure("first one closed after", min(closed, default=0), "s", at_least(1.5)),
        Figure("last one closed after", max(closed, default=10), "s", at_most(4)),
    ]


async def h2(_options: Options) -> Sequence[Figure]:
    """Kills h2load in the middle of its requests, ten times each with HTTP/2 and HTTP/1.1 in turns, on the plain port and over TLS. The
    next request wants an answer.
    """
    tool("h2load")
    tool("openssl")
    figures = []
    for name in ("plain", "TLS"):
        with directory() as place:
            async with serving(place, settings=certificate(place) if name == "TLS" else {}) as server:
                answered = 0
                for _ in range(10):
                    await _leaving_crowd(server, "-m10")
                    await _leaving_crowd(server, "--h1")
                    answered += await server.status("/health/live") == 200
                same = server.process.returncode is None
        figures.append(Figure(f"{name}: next request answered after clients left, of 10", answered, bar=at_least(10)))
        figures.append(Figure(f"{name}: the process that started still serves", same, bar=at_least(1)))
    return figures


async def _leaving_crowd(server: Server, way: str) -> None:
    scheme = "https" if server.tls else "http"
    process = await trio.lowlevel.open_process(
        ["h2load", "-c10", way, "-n1000000", f"{scheme}://127.0.0.1:{server.port}/health/live"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with trio.move_on_after(0.5):
        await process.wait()  # h2load gives up at once if the server refuses HTTP/2.
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
    await process.wait()


def certificate(place: Path) -> dict[str, str]:
    """Settings for TLS, with a new certificate."""
    key, chain = place / "key.pem", place / "chain.pem"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run([*words, "-keyout", str(key), "-out", str(chain)], check=True, capture_output=True)
    return {"POSTERN_TLS_KEY": str(key), "POSTERN_TLS_CERTIFICATE": str(chain)}


async def connections(_options: Options) -> Sequence[Figure]:
    """5 000 connections that idle after one request, and 500 that send a header at a byte a second. Meanwhile others want answers."""
    wanted = IDLE + SLOW + 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise Skipped(f"this machine allows {hard} open files, {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))  # The server inherits this limit.
    try:
        return await _crowd()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _crowd() -> Sequence[Figure]:
    tally, closed, refused = Tally(), 0, 0
    held = 15.0  # The crowd must be complete before the first time-out ends.
    with directory() as place:
        async with serving(place, settings={"POSTERN_KEEP_ALIVE": f"{held:.0f}s", "POSTERN_HEADER_TIMEOUT": f"{held:.0f}s"}) as server:
            arrived = trio.Event()
            slots = trio.Semaphore(200)
            here = 0

            async def one(*, slow: bool) -> None:
                nonlocal here, closed, refused
                try:
                    async with slots:
                        client = await Client.open(server.target("/health/live"))
                        if not slow:
                            await client.get()
                except (OSError, Broken):
                    refused += 1
                    return
                here += 1
                if here == IDLE + SLOW:
                    arrived.set()
                try:
                    await (_dawdle(client) if slow else client.ended())
                    closed += 1
                finally:
                    await client.aclose()

            with trio.move_on_after(90) as waiting:
                async with trio.open_nursery() as nursery:
                    started = trio.current_time()
                    for number in range(IDLE + SLOW):
                        nursery.start_soon(lambda slow: one(slow=slow), number % 11 == 0)
                    with trio.move_on_after(held):
                        await arrived.wait()
                    came = trio.current_time() - started
                    most = here - closed
                    await drive(server.target("/health/live"), tally, connections=4, seconds=4, pause=0.02)
                    resident = server.resident()
            took = trio.current_time() - started
            alive = await server.status("/health/live") == 200
            left = processes.descriptors(server.pid)
    return [
        Figure("connections held at once", most, bar=at_least(IDLE + SLOW)),
        Figure("all had come after", came, "s"),
        Figure("other requests failed meanwhile", tally.summary().failures, bar=at_most(0)),
        Figure("other requests answered meanwhile", tally.requests, bar=at_least(100)),
        Figure("their latency, 99th percentile", percentile(tally.latencies, 99) * 1e3, "ms"),
        Figure("resident meanwhile", resident, "MiB", at_most(250)),
        Figure("connections closed by the server", closed, bar=at_least(IDLE + SLOW)),
        Figure("connections refused or broken", refused, bar=at_most(0)),
        Figure("all closed after", took, "s", at_most(came + held + 5))
        if not waiting.cancelled_caught
        else Figure("all closed", 0, bar=at_least(1)),
        Figure("answers afterwards", alive, bar=at_least(1)),
        Figure("open descriptors afterwards", left, bar=at_most(100)),
    ]


async def _dawdle(client: Client) -> None:
    """Sends an endless header at a byte a second, until the server closes the connection."""
    async with trio.open_nursery() as nursery:

        async def drip() -> None:
            await client.send(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            while True:
                await client.send(b"a")
                await trio.sleep(1)

        nursery.start_soon(drip)
        await client.ended()
        nursery.cancel_scope.cancel()
