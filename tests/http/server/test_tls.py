"""TLS: the offered protocols, and clients that fail the handshake."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from entrypoints.http.server.limits import ServerSettings
from tests.conftest import CapturedLog
from tests.http.running_server import Certificate, Receive, RunningServer, Send, application, echo, greet, running
from tests.patience import PATIENCE, SOONER


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate.make(tmp_path)


def settings(made: Certificate, **others: float) -> ServerSettings:
    return ServerSettings(certificate=made.certificate, certificate_key=made.key, **others)  # type: ignore[arg-type]  # the others are seconds


@asynccontextmanager
async def secure(made: Certificate, **others: float) -> AsyncIterator[RunningServer]:
    async with running(application(echo), settings(made, **others), trusted=made.trusted()) as server:
        yield server


async def test_requests_are_answered(certificate: Certificate) -> None:
    async with secure(certificate) as server, httpx.AsyncClient(verify=certificate.trusted(), timeout=PATIENCE) as client:
        for size in (0, 10, 1_000_000):
            response = await client.post(f"https://127.0.0.1:{server.port}/", content=bytes(size))
            assert (response.status_code, len(response.content)) == (200, size)
            assert response.http_version == "HTTP/1.1"


async def test_http2_is_not_offered(certificate: Certificate) -> None:
    trusted = certificate.trusted()
    trusted.set_alpn_protocols(["h2", "http/1.1"])
    async with running(application(greet), settings(certificate), trusted=trusted) as server:
        client = await server.connect()
        assert (await client.ask()).status == 200
        assert isinstance(client.stream, trio.SSLStream)
        assert client.stream.selected_alpn_protocol() == "http/1.1"


async def test_old_versions_are_refused(certificate: Certificate) -> None:
    trusted = certificate.trusted()
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        trusted.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        trusted.maximum_version = ssl.TLSVersion.TLSv1_1
    trusted.set_ciphers("ALL:@SECLEVEL=0")
    async with running(application(greet), settings(certificate), trusted=trusted) as server:
        client = await server.connect()
        with pytest.raises(trio.BrokenResourceError):
            await client.ask()


async def test_a_failed_handshake_is_no_noise(certificate: Certificate, log: CapturedLog) -> None:
    async with secure(certificate) as server:
        for sent in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01", b""):
            stream = await trio.open_tcp_stream("127.0.0.1", server.port)
            if sent:
                await stream.send_all(sent)
            await stream.aclose()
        assert (await server.ask()).status == 200
    assert log.entries == []


async def test_a_handshake_that_does_not_come_is_not_waited_for(certificate: Certificate) -> None:
    async with secure(certificate, handshake=0.2) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with stream:
            with trio.fail_after(SOONER):
                assert await stream.receive_some() == b""


async def test_idle_connections_are_closed_in_time(certificate: Certificate) -> None:
    async with secure(certificate, keep_alive=0.3) as server:
        clients = []
        for _ in range(10):
            clients.append(client := await server.connect())
            await client.ask()
        with trio.fail_after(SOONER):
            for client in clients:
                assert await client.closed()


async def test_a_client_that_hangs_up_cancels_the_handler(certificate: Certificate) -> None:
    begun, cancelled = trio.Event(), trio.Event()

    async def wait(_scope: object, _receive: Receive, _send: Send) -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    made = settings(certificate, watch_interval=0.05)
    async with running(application(wait), made, trusted=certificate.trusted()) as server:
        client = await server.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: postern.test\r\n\r\n")
        await begun.wait()
        await client.stream.aclose()
        with trio.fail_after(PATIENCE):
            await cancelled.wait()


async def test_a_drain_serves_what_has_arrived_and_closes_the_idle(certificate: Certificate) -> None:
    async with secure(certificate) as server:
        idle, asking = await server.connect(), await server.connect()
        await idle.ask()
        await asking.ask()
        await asking.send(b"GET / HTTP/1.1\r\nHost: postern.test\r\n\r\n")
        server.shutdown.set()
        assert (await asking.answer()).status == 200
        with trio.fail_after(PATIENCE):
            assert await idle.closed()
