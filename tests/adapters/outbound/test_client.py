"""The guarded client, against receivers on loopback: the addresses that it connects to, and its handling of answers."""

import re
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import httpcore
import pytest
import trio

from adapters.outbound import connections
from adapters.outbound.client import LONGEST_ANSWER, GuardedClient
from adapters.outbound.dialer import Dialer
from core.domain.outbound import Address, destination
from core.domain.secrets import Secret
from ports.outbound import Failure, OutboundAnswer, OutboundFailed, OutboundRequest
from tests.conftest import CapturedLog
from tests.hostile_addresses import HOSTILE_ADDRESSES
from tests.http.running_server import Certificate
from tests.places import ROOT
from tests.receiver import Call, answering, hanging_up, receiving, trickling

LOOPBACK = (ip_network("127.0.0.1/32"),)
LONG = timedelta(seconds=30)


class ScriptedAddresses:
    """Names and their addresses. A name with several answers gives the next one each time it is asked for."""

    def __init__(self, **names: Sequence[Sequence[str]]) -> None:
        self._names = {name.replace("_", "."): list(answers) for name, answers in names.items()}
        self.asked = 0

    async def addresses(self, host: str) -> Sequence[Address]:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        answers = self._names.get(host, [[]])
        return [ip_address(one) for one in (answers.pop(0) if len(answers) > 1 else answers[0])]


class Watched(httpcore.AsyncNetworkBackend):
    """Connects on loopback, and notes where to. What is `unreachable` refuses."""

    def __init__(self, unreachable: Iterable[str] = ()) -> None:
        self.connects: list[str] = []
        self._unreachable = set(unreachable)
        self._real = httpcore.TrioBackend()

    async def connect_tcp(self, host: str, port: int, *_others: Any, **_more: Any) -> httpcore.AsyncNetworkStream:
        self.connects.append(host)
        if host in self._unreachable:
            raise httpcore.ConnectError
        assert ip_address(host).is_loopback
        return await self._real.connect_tcp("127.0.0.1", port)


class Calling:
    """A client, and what it is told by its network."""

    def __init__(self, *, allowed: Any = LOOPBACK, proxy: str | None = None, authorities: Path | None = None, **names: Any) -> None:
        self.network = Watched(unreachable=["93.184.215.14"])
        self.names = ScriptedAddresses(**names)
        self.client = GuardedClient(Dialer(self.names, allowed, None if proxy is None else Secret(proxy), self.network), authorities)

    async def post(self, url: str, timeout: timedelta = LONG) -> OutboundAnswer:
        return await self.client.post(OutboundRequest(destination(url), b"body", {"x-own": "1"}), timeout)

    async def failure(self, url: str, timeout: timedelta = LONG) -> Failure:
        with pytest.raises(OutboundFailed) as failed:
            await self.post(url, timeout)
        return failed.value.failure


@asynccontextmanager
async def calling(**settings: Any) -> AsyncIterator[Calling]:
    made = Calling(**settings)
    try:
        yield made
    finally:
        await made.client.aclose()


def test_nothing_else_of_the_server_speaks_http_to_others() -> None:
    """All outbound calls go through this client: to receivers, providers, published keys and addresses of logos."""
    speaks = re.compile(r"^\s*(?:import|from) (?:httpcore|httpx|aiohttp|requests|urllib3|urllib\.request|http\.client)\b", re.MULTILINE)
    layers = ("core", "ports", "adapters", "actors", "entrypoints")
    files = (file for layer in layers for file in (ROOT / layer).rglob("*.py") if speaks.search(file.read_text()))
    others = {file.relative_to(ROOT) for file in files if file.parent != ROOT / "adapters/outbound"}
    # The command that starts the demo, the programs that it starts, and the one that asks a server of ours for an assistant.
    assert {str(other) for other in others} == {
        "entrypoints/cli/demo.py",
        "entrypoints/cli/mcp/asking.py",
        *(f"entrypoints/demo/{name}.py" for name in ("application", "tools", "wiki")),
    }


async def test_a_call_arrives_as_it_was_meant() -> None:
    async with receiving(answering(202, b"thanks", "Retry-After: 7")) as receiver, calling(one_example=[["127.0.0.1"]]) as ours:
        answer = await ours.post(f"http://one.example:{receiver.port}/in?a=b")
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (202, b"thanks", "7")
    (call,) = receiver.calls
    assert call == Call(
        "/in?a=b",
        {"host": f"one.example:{receiver.port}", "accept-encoding": "identity", "content-length": "4", "x-own": "1"},
        b"body",
    )


async def test_nothing_hostile_is_connected_to_by_address_or_by_name(log: CapturedLog) -> None:
    async with calling(allowed=(), **{f"n{place}_example": [[address]] for place, address in enumerate(HOSTILE_ADDRESSES)}) as ours:
        for place, address in enumerate(HOSTILE_ADDRESSES):
            literal = f"http://[{address}]/" if ":" in address else f"http://{address}/"
            assert not ours.client.may_call(destination(literal))
            assert await ours.failure(literal) is Failure.REFUSED
            assert await ours.failure(f"http://n{place}.example/") is Failure.REFUSED
        assert ours.network.connects == []
    assert len(log.events("outbound_refused")) == 2 * len(HOSTILE_ADDRESSES)


async def test_one_hostile_address_among_several_refuses_the_name() -> None:
    for several in (["93.184.215.14", "10.0.0.1"], ["10.0.0.1", "93.184.215.14"], ["2606:4700::1", "::ffff:127.0.0.1"]):
        async with calling(allowed=(), one_example=[several]) as ours:
            assert await ours.failure("https://one.example/") is Failure.REFUSED
            assert ours.network.connects == []


async def test_a_name_that_changes_between_check_and_connect_is_asked_once() -> None:
    async with receiving(answering(200)) as receiver, calling(one_example=[["127.0.0.1"], ["10.0.0.1"]]) as ours:
        assert (await ours.post(f"http://one.example:{receiver.port}/")).status == 200
        assert (ours.names.asked, ours.network.connects) == (1, ["127.0.0.1"])
        # A new connection is a new check.
        assert await ours.failure("http://one.example:9/") is Failure.REFUSED
        assert ours.network.connects == ["127.0.0.1"]


async def test_connections_are_kept_and_used_again() -> None:
    async with receiving(answering(200, b"ok")) as receiver, calling(one_example=[["127.0.0.1"]]) as ours:
        for _ in range(5):
            await ours.post(f"http://one.example:{receiver.port}/")
    assert (len(receiver.calls), receiver.connections) == (5, 1)


async def test_a_connection_is_kept_for_its_own_destination() -> None:
    async with receiving(answering(200)) as receiver, calling(one_example=[["127.0.0.1"]], two_example=[["127.0.0.1"]]) as ours:
        for name in ("one", "two", "one", "two"):
            await ours.post(f"http://{name}.example:{receiver.port}/")
        assert receiver.connections == 2


async def test_calls_at_once_have_connections_of_their_own_and_both_are_kept() -> None:
    async with receiving(answering(200)) as receiver, calling() as ours:
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(ours.post, f"http://127.0.0.1:{receiver.port}/")
        assert receiver.connections == 2


async def test_beyond_a_number_the_oldest_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_KEPT", 2)
    names = {f"n{number}_example": [["127.0.0.1"]] for number in range(3)}
    async with receiving(answering(200)) as receiver, calling(**names) as ours:
        for number in (0, 1, 2, 2, 1):
            await ours.post(f"http://n{number}.example:{receiver.port}/")
        assert receiver.connections == 3
        await ours.post(f"http://n0.example:{receiver.port}/")
        assert receiver.connections == 4


async def test_none_is_kept_longer_than_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "KEPT_FOR", 0.0)
    async with receiving(answering(200)) as receiver, calling() as ours:
        for _ in range(3):
            await ours.post(f"http://127.0.0.1:{receiver.port}/")
        assert receiver.connections == 3


async def test_one_that_the_other_side_closed_meanwhile_is_not_used() -> None:
    async def once(stream: trio.abc.Stream, call: Call) -> bool:
        await answering(200)(stream, call)
        return False

    async with receiving(once) as receiver, calling() as ours:
        for _ in range(3):
            await ours.post(f"http://127.0.0.1:{receiver.port}/")
            await trio.testing.wait_all_tasks_blocked()
        assert (len(receiver.calls), receiver.connections) == (3, 3)


async def test_a_call_that_was_given_up_leaves_nothing_to_be_used_again() -> None:
    async with receiving(silent) as receiver, calling() as ours:
        url = f"http://127.0.0.1:{receiver.port}/"
        with trio.move_on_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ours.post, url)
                await receiver.until(1)
                nursery.cancel_scope.cancel()
        receiver.answer = answering(200)
        assert (await ours.post(url)).status == 200
        assert receiver.connections == 2


async def test_a_kept_connection_that_is_lost_does_not_lose_the_call() -> None:
    async with receiving(answering(200)) as receiver, calling() as ours:
        url = f"http://127.0.0.1:{receiver.port}/"
        await ours.post(url)

        async def once(_stream: trio.abc.Stream, _call: Call) -> bool:
            receiver.answer = answering(200)
            return False

        receiver.answer = once
        assert (await ours.post(url)).status == 200
    assert (len(receiver.calls), receiver.connections) == (3, 2)


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with receiving(answering(200)) as receiver, calling(one_example=[["93.184.215.14", "127.0.0.1"]]) as ours:
        assert (await ours.post(f"http://one.example:{receiver.port}/")).status == 200
        assert ours.network.connects == ["93.184.215.14", "127.0.0.1"]


async def test_redirects_are_answers() -> None:
    async with (
        receiving(answering(200)) as inside,
        receiving(answering(302, b"", f"location: http://127.0.0.1:{inside.port}/")) as receiver,
    ):
        async with calling() as ours:
            assert (await ours.post(f"http://127.0.0.1:{receiver.port}/")).status == 302
        assert inside.connections == 0


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving(answering(502)) as proxy, receiving(answering(200)) as receiver, calling() as ours:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await ours.post(f"http://127.0.0.1:{receiver.port}/")).status == 200
        assert proxy.connections == 0


async def test_long_answers_are_cut_off() -> None:
    async def endless(stream: trio.abc.Stream, _call: Call) -> bool:
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
        while True:
            await stream.send_all(bytes(10_000))

    async with receiving(endless) as receiver, calling() as ours:
        answer = await ours.post(f"http://127.0.0.1:{receiver.port}/")
        assert (answer.status, len(answer.body)) == (200, LONGEST_ANSWER)


async def test_answers_are_not_unpacked() -> None:
    async with receiving(answering(200, b"\x1f\x8bwhatever", "content-encoding: gzip")) as receiver, calling() as ours:
        assert (await ours.post(f"http://127.0.0.1:{receiver.port}/")).body == b"\x1f\x8bwhatever"


async def test_one_deadline_is_over_all(autojump_clock: trio.testing.MockClock) -> None:
    async with receiving(trickling) as drips, receiving(silent) as waits, calling() as ours:
        # The clock of the test jumps when nobody has anything to do; what is on its way on loopback takes real time.
        autojump_clock.autojump_threshold = 0.05
        for port in (drips.port, waits.port):
            assert await ours.failure(f"http://127.0.0.1:{port}/", timedelta(seconds=10)) is Failure.TIMEOUT


async def test_failures_are_told_apart() -> None:
    async with receiving(answering(200)) as receiver, receiving(hanging_up) as rude, calling() as ours:
        receiver.answer = garbage
        assert await ours.failure(f"http://127.0.0.1:{receiver.port}/") is Failure.MALFORMED
        assert await ours.failure(f"http://127.0.0.1:{rude.port}/") is Failure.MALFORMED
        assert await ours.failure("http://unknown.example/") is Failure.UNRESOLVED
        assert await ours.failure(f"https://127.0.0.1:{receiver.port}/") is Failure.TLS
    async with calling(one_example=[["93.184.215.14"]]) as ours:
        assert await ours.failure("http://one.example/") is Failure.UNREACHABLE


async def silent(_stream: trio.abc.Stream, _call: Call) -> bool:
    await trio.sleep(float("inf"))
    return False


async def garbage(stream: trio.abc.Stream, _call: Call) -> bool:
    await stream.send_all(b"SSH-2.0-server\r\n\r\n")
    return False


async def test_private_authorities_are_trusted_where_the_operator_says_so(tmp_path: Path) -> None:
    made = Certificate.make(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.certificate, made.key)
    async with receiving(answering(200), tls) as receiver:
        async with calling(authorities=made.certificate, other_example=[["127.0.0.1"]]) as ours:
            assert (await ours.post(f"https://127.0.0.1:{receiver.port}/")).status == 200
            # The name in the certificate must be the one in the URL, whatever address it has.
            assert await ours.failure(f"https://other.example:{receiver.port}/") is Failure.TLS
        async with calling() as strangers:
            assert await strangers.failure(f"https://127.0.0.1:{receiver.port}/") is Failure.TLS


async def test_the_operators_proxy_is_asked_for_the_checked_address() -> None:
    heads: list[bytes] = []

    async def tunnel(stream: trio.SocketStream) -> None:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive_some()
            heads.append(head)
            await stream.send_all(answers.pop(0))
            host, _, port = head.split(b" ")[1].decode().rpartition(":")
            async with await trio.open_tcp_stream(host, int(port)) as target, trio.open_nursery() as both:
                both.start_soon(pump, stream, target)
                await pump(target, stream)
                both.cancel_scope.cancel()

    async def pump(one: trio.abc.Stream, other: trio.abc.Stream) -> None:
        try:
            while data := await one.receive_some():
                await other.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    answers = [b"HTTP/1.1 200 Connected\r\n\r\n", b"HTTP/1.1 403 No\r\n\r\n", b"HTTP/1.1 200 Connected\r\n\r\nSmuggled"]
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    async with receiving(answering(200)) as receiver, trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, tunnel, listeners)
        async with calling(proxy=f"http://us:p%40ss@127.0.0.1:{port}", one_example=[["127.0.0.1"]], bad_example=[["10.0.0.1"]]) as ours:
            url = f"http://one.example:{receiver.port}/"
            assert (await ours.post(url)).status == 200
            assert await ours.failure("http://bad.example/") is Failure.REFUSED
        for _ in range(2):
            async with calling(proxy=f"http://127.0.0.1:{port}", one_example=[["127.0.0.1"]]) as ours:
                assert await ours.failure(url) is Failure.UNREACHABLE
        nursery.cancel_scope.cancel()
    assert receiver.calls[0].headers["host"] == f"one.example:{receiver.port}"
    assert heads[0].startswith(f"CONNECT 127.0.0.1:{receiver.port} HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization: Basic dXM6cEBzcw==\r\n" in heads[0]
    assert len(heads) == 3
