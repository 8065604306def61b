"""Answers that are costly to read are refused after little work, and other tasks run meanwhile."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import chain, repeat
from typing import Any

import httpcore
import pytest
import trio
import trio.testing

from adapters.outbound.client import LONGEST_ANSWER, GuardedClient, PlainClient
from adapters.outbound.connections import LONGEST_HEAD, MOST_CRUMBS, MOST_INTERIM, MOST_LINES, READ, SMALLEST
from adapters.outbound.dialer import EVERYWHERE, Dialer
from core.domain.outbound import Address, destination
from ports.outbound import Failure, OutboundAnswer, OutboundFailed, OutboundRequest
from tests.receiver import answering, receiving

LONG = timedelta(seconds=30)
DESTINATION = destination("http://192.0.2.1/")
INTERIM = b"HTTP/1.1 102 Processing\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Nobody:
    async def addresses(self, host: str) -> Sequence[Address]:
        raise AssertionError(host)


class ScriptedNetwork(httpcore.AsyncNetworkBackend, httpcore.AsyncNetworkStream):
    """A network whose other side says `pieces`, each of which arrives for itself, and counts how it is read."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces: Iterator[bytes] = iter(pieces)
        self._rest = b""
        self.reads: list[int] = []
        self.is_closed = False

    async def connect_tcp(self, *_others: Any, **_more: Any) -> httpcore.AsyncNetworkStream:
        await trio.lowlevel.checkpoint()
        _jump(0.0)
        return self

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - httpcore's own
        await trio.lowlevel.checkpoint()
        self.reads.append(max_bytes)
        piece = self._rest or next(self._pieces, b"")
        self._rest = piece[max_bytes:]
        return piece[:max_bytes]

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - as above
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
        self.is_closed = True

    def get_extra_info(self, info: str) -> Any:  # noqa: ARG002 - as above
        return None


def _jump(threshold: float) -> None:
    """The clock of a test jumps once there is a connection. Before, a thread is at work, and nobody has anything to do meanwhile."""
    clock = trio.lowlevel.current_clock()
    if isinstance(clock, trio.testing.MockClock):
        clock.autojump_threshold = threshold


async def answered(network: ScriptedNetwork) -> OutboundAnswer:
    client = GuardedClient(Dialer(Nobody(), EVERYWHERE, network=network))
    try:
        return await client.post(OutboundRequest(DESTINATION, b"body"), LONG)
    finally:
        _jump(float("inf"))
        await client.aclose()


async def require_refused(pieces: Iterable[bytes]) -> ScriptedNetwork:
    network = ScriptedNetwork(pieces)
    with pytest.raises(OutboundFailed) as failed:
        await answered(network)
    assert failed.value.failure is Failure.MALFORMED
    assert network.is_closed
    return network


def chunk(content: bytes, extension: bytes = b"") -> bytes:
    return b"%x%s\r\n%s\r\n" % (len(content), extension, content)


async def test_interim_heads_without_end_are_refused_after_a_few() -> None:
    network = await require_refused(repeat(INTERIM * 1000))
    assert len(network.reads) == 1
    network = await require_refused(repeat(INTERIM))
    assert len(network.reads) == MOST_INTERIM + 1


async def test_a_few_interim_heads_are_passed_over() -> None:
    for pieces in ([INTERIM * MOST_INTERIM + OK], [*repeat(INTERIM, MOST_INTERIM), OK]):
        answer = await answered(ScriptedNetwork(pieces))
        assert (answer.status, answer.body) == (200, b"ok")


async def test_each_answer_has_its_own_interim_heads() -> None:
    network = ScriptedNetwork(chain(repeat(INTERIM, 8), [OK], repeat(INTERIM, 8), [OK]))
    client = GuardedClient(Dialer(Nobody(), EVERYWHERE, network=network))
    for _ in range(2):
        assert (await client.post(OutboundRequest(DESTINATION, b""), LONG)).body == b"ok"
    await client.aclose()


@pytest.mark.usefixtures("mock_clock")
async def test_chunks_of_a_byte_are_refused_after_a_thousand() -> None:
    network = await require_refused(chain([CHUNKED], repeat(chunk(b"x") * 10_000)))
    assert len(network.reads) <= 1 + -(-MOST_CRUMBS * len(chunk(b"x")) // READ)
    await require_refused([CHUNKED, chunk(b"x" * (SMALLEST - 1)) * (LONGEST_ANSWER // SMALLEST), END])


@pytest.mark.usefixtures("mock_clock")
async def test_many_chunks_are_an_answer_if_they_are_no_crumbs() -> None:
    for size in (SMALLEST, 100):
        answer = await answered(ScriptedNetwork([CHUNKED, chunk(b"x" * size) * 3000, END]))
        assert answer.body == b"x" * min(3000 * size, LONGEST_ANSWER)
    # A thousand of them are, however small.
    answer = await answered(ScriptedNetwork([CHUNKED, chunk(b"x") * (MOST_CRUMBS - 24), END]))
    assert answer.body == b"x" * (MOST_CRUMBS - 24)


@pytest.mark.usefixtures("mock_clock")
async def test_one_byte_at_a_time_is_refused_after_a_thousand_in_a_head_and_in_a_body() -> None:
    endless = b"HTTP/1.1 200 OK\r\nx: " + b"a" * (8 << 10)
    network = await require_refused(bytes([one]) for one in endless)
    assert len(network.reads) == MOST_CRUMBS + 1
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n"
    network = await require_refused(chain([head], repeat(b"x")))
    assert len(network.reads) <= MOST_CRUMBS + 10
    network = await require_refused(chain([CHUNKED], repeat(b"1"), repeat(b"\r\n")))
    assert len(network.reads) <= MOST_CRUMBS + 10


@pytest.mark.usefixtures("mock_clock")
async def test_an_answer_that_arrives_slowly_is_an_answer() -> None:
    whole = b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n" + b"x" * 900
    answer = await answered(ScriptedNetwork(bytes([one]) for one in whole))
    assert (answer.status, answer.body) == (200, b"x" * 900)


@pytest.mark.usefixtures("mock_clock")
async def test_what_surrounds_the_content_says_nothing() -> None:
    """Each chunk brings a line that is longer than all that it holds."""
    network = await require_refused(chain([CHUNKED], repeat(chunk(b"x", b";" + b"e" * 10_000))))
    assert len(network.reads) < 4 * MOST_CRUMBS


async def test_a_head_has_a_bound() -> None:
    assert (
        await answered(ScriptedNetwork([b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * (MOST_LINES - 2), b"content-length: 0\r\n\r\n"]))
    ).status == 200
    for pieces in (
        [b"HTTP/1.1 200 OK\r\n" + b"a:\r\n" * MOST_LINES + b"\r\n"],
        [b"HTTP/1.1 200 OK\r\n", *repeat(b"a:\r\n" * 900, 4), b"\r\n"],
        # Trailers are a head behind the body.
        [CHUNKED, b"0\r\n", *repeat(b"a:\r\n" * 900, 4), b"\r\n"],
        chain([b"HTTP/1.1 200 OK\r\n"], repeat(b"a: " + b"b" * 5000 + b"\r\n")),
    ):
        network = await require_refused(pieces)
        assert len(network.reads) <= 1 + -(-2 * LONGEST_HEAD // READ)


async def test_a_body_of_many_lines_is_none_of_a_head() -> None:
    body = b"\n" * 5000
    for pieces in ([b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + body], [CHUNKED + chunk(body), END]):
        assert (await answered(ScriptedNetwork(pieces))).body == body


@pytest.mark.parametrize(
    ("pieces", "parts"),
    [
        ([CHUNKED, chunk(b"x" * SMALLEST) * 4000, END], 4000),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 64000\r\n\r\n" + b"x" * 64000], 64000 // READ),
    ],
)
async def test_nothing_is_read_at_once_that_would_keep_others_waiting(pieces: Iterable[bytes], parts: int) -> None:
    """Another task has its turn after each read, and after a few parts of what was read."""
    network, turns = ScriptedNetwork(pieces), 0

    async def neighbour() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(neighbour)
        assert len((await answered(network)).body) == 64000
        nursery.cancel_scope.cancel()
    assert set(network.reads) == {READ}
    # Each task has one turn in each round of the loop, so this does not depend on the machine.
    assert turns >= len(network.reads) + parts // 32


async def test_crumbs_are_read_at_a_pace(mock_clock: trio.testing.MockClock) -> None:
    """Twenty receivers that always send such answers must leave the processor to other work."""
    for pieces in (
        [CHUNKED, chunk(b"x") * 10_000],
        chain([b"HTTP/1.1 200 OK\r\nx: "], repeat(b"a")),
    ):
        began = mock_clock.current_time()
        await require_refused(pieces)
        assert 1.5 < mock_clock.current_time() - began < 1.7
    # An answer in chunks that say something is read as quickly as it comes.
    began = mock_clock.current_time()
    await answered(ScriptedNetwork([CHUNKED, chunk(b"x" * SMALLEST) * 3000, END]))
    assert mock_clock.current_time() == began


async def test_a_refused_answer_is_not_asked_for_again() -> None:
    """A kept connection may break while a request is on its way; what came over it and was refused came."""
    network = ScriptedNetwork(chain([OK], repeat(INTERIM * 100)))
    client = GuardedClient(Dialer(Nobody(), EVERYWHERE, network=network))
    assert (await client.post(OutboundRequest(DESTINATION, b""), LONG)).body == b"ok"
    with pytest.raises(OutboundFailed):
        await client.post(OutboundRequest(DESTINATION, b""), LONG)
    assert len(network.reads) == 2
    await client.aclose()


async def test_the_operators_client_is_as_strict() -> None:
    client = PlainClient(Dialer(Nobody(), EVERYWHERE, network=ScriptedNetwork(repeat(INTERIM * 100))))
    with pytest.raises(OutboundFailed) as failed:
        await client.call("GET", OutboundRequest(DESTINATION, b""), LONG)
    assert failed.value.failure is Failure.MALFORMED
    await client.aclose()


async def test_gets_are_as_strict_and_what_failed_leaves_nothing_behind() -> None:
    async def endless(stream: trio.abc.Stream, _call: Any) -> bool:
        receiver.answer = answering(200, b"ok")
        while True:
            await stream.send_all(INTERIM * 100)

    async with receiving(endless) as receiver:
        client = GuardedClient(Dialer(Nobody(), EVERYWHERE))
        to = destination(f"http://127.0.0.1:{receiver.port}/")
        with pytest.raises(OutboundFailed) as failed:
            await client.get(to, LONG, most=1000)
        assert failed.value.failure is Failure.MALFORMED
        assert (await client.get(to, LONG, most=1000)).body == b"ok"
        assert receiver.connections == 2
        await client.aclose()
