"""Requests over one connection, in every shape that HTTP/1.1 allows, and in some that it forbids."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
from hypercorn.utils import LifespanFailureError
from quart_trio import QuartTrio

from entrypoints.http.server.limits import ServerSettings
from tests.conftest import CapturedLog
from tests.http.running_server import GET, Receive, Send, answer, application, echo, greet, running, whole_body
from tests.patience import PATIENCE

HOST = b"Host: postern.test\r\n"
CHUNKED = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"


async def test_one_connection_serves_one_request_after_the_other() -> None:
    async with running(application(greet)) as server:
        client = await server.connect()
        for _ in range(3):
            assert (await client.ask()).body == b"ok"


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    async def path(scope: Any, _receive: Receive, send: Send) -> None:
        await answer(send, scope["path"].encode())

    async with running(application(path)) as server:
        client = await server.connect()
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\n%b\r\n" % (number, HOST) for number in range(50)))
        assert [(await client.answer()).body for _ in range(50)] == [b"/%d" % number for number in range(50)]


async def test_a_pipelined_request_may_follow_a_body() -> None:
    async with running(application(echo)) as server:
        client = await server.connect()
        await client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n\r\nbody" + GET)
        assert (await client.answer(b"POST")).body == b"body"
        assert (await client.answer()).body == b""


async def test_the_scope_tells_what_was_asked() -> None:
    scopes: list[Any] = []

    async def keep(scope: Any, _receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await answer(send)

    async with running(application(keep)) as server:
        await server.ask(b"GET /a%20b/%C3%A9?q=1&r=%20 HTTP/1.1\r\nHost: postern.test\r\nX-Two: 1\r\nx-two:  2 \r\n\r\n")
        await server.ask(b"GET http://elsewhere.test/path?q HTTP/1.1\r\nHost: postern.test\r\n\r\n")
        await server.ask(b"OPTIONS * HTTP/1.1\r\nHost: postern.test\r\n\r\n")
    plain, absolute, asterisk = scopes
    assert (plain["path"], plain["raw_path"], plain["query_string"]) == ("/a b/é", b"/a%20b/%C3%A9", b"q=1&r=%20")
    assert plain["headers"] == [(b"host", b"postern.test"), (b"x-two", b"1"), (b"x-two", b"2")]
    assert plain["client"][0] == plain["server"][0] == "127.0.0.1"
    assert (plain["scheme"], plain["http_version"], plain["method"]) == ("http", "1.1", "GET")
    assert (absolute["path"], absolute["query_string"], absolute["headers"]) == ("/path", b"q", [(b"host", b"elsewhere.test")])
    assert (asterisk["path"], asterisk["method"]) == ("*", "OPTIONS")


async def test_a_chunked_body_arrives_whole() -> None:
    async with running(application(echo)) as server:
        client = await server.connect()
        await client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nfoo\r\n")
        await trio.sleep(0.02)
        await client.send(b"4;extension=1\r\nbars\r\n0\r\ntrailer: 1\r\n\r\n")
        assert (await client.answer(b"POST")).body == b"foobars"
        assert (await client.ask()).status == 200


async def test_a_large_body_is_read_only_as_fast_as_the_application_asks() -> None:
    go_on = trio.Event()

    async def late(_scope: Any, receive: Receive, send: Send) -> None:
        await go_on.wait()
        await answer(send, b"%d" % len(await whole_body(receive) or b""))

    size = 32 * 1024 * 1024
    sent = 0
    async with running(application(late)) as server, trio.open_nursery() as nursery:
        client = await server.connect()
        await client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % size)

        async def push() -> None:
            nonlocal sent
            while sent < size:
                await client.send(bytes(65536))
                sent += 65536

        nursery.start_soon(push)
        await trio.sleep(0.2)
        # As much as the kernel's two buffers take, and no more.
        assert sent < size // 2
        go_on.set()
        assert (await client.answer(b"POST")).body == b"%d" % size


async def test_continue_is_said_when_the_body_is_asked_for() -> None:
    async with running(application(echo)) as server:
        client = await server.connect()
        await client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        assert await client.stream.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"body")
        assert (await client.answer(b"POST")).body == b"body"


async def test_a_body_that_is_not_wanted_is_not_waited_for() -> None:
    async with running(application(greet)) as server:
        client = await server.connect()
        got = await client.ask(b"POST / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        assert (got.status, got.headers["connection"]) == (200, "close")
        assert await client.closed()


async def test_a_refusal_reaches_a_client_that_is_still_sending() -> None:
    async with running(application(greet)) as server:
        client = await server.connect()
        await client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1000000\r\n\r\n" + bytes(1000))
        await trio.sleep(0.05)
        await client.send(bytes(100_000))
        got = await client.answer(b"POST")
        assert (got.status, got.headers["connection"]) == (200, "close")


async def test_an_unread_body_that_has_arrived_does_not_cost_the_connection() -> None:
    async with running(application(greet)) as server:
        client = await server.connect()
        got = await client.ask(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n\r\nbody")
        assert "connection" not in got.headers
        assert (await client.ask()).status == 200


async def test_an_answer_goes_out_in_one_piece() -> None:
    async with running(application(greet)) as server:
        client = await server.connect()
        await client.send(GET)
        assert (await client.stream.receive_some()).endswith(b"\r\n\r\nok")


async def test_answers_are_dated_and_do_not_say_who_made_them() -> None:
    async def boast(_scope: Any, _receive: Receive, send: Send) -> None:
        await answer(send, headers=[(b"server", b"postern/1"), (b"x-kept", b"1")])

    async with running(application(boast)) as server:
        got = await server.ask()
    assert set(got.headers) == {"x-kept", "content-length", "date"}


async def test_head_answers_like_get_without_the_body() -> None:
    async with running(application(greet)) as server:
        client = await server.connect()
        got = await client.ask(b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (got.body, got.headers["content-length"]) == (b"", "2")
        assert (await client.ask()).body == b"ok"


@pytest.mark.parametrize("status", [204, 304])
async def test_statuses_without_a_body_have_none(status: int) -> None:
    async def none(_scope: Any, _receive: Receive, send: Send) -> None:
        await answer(send, b"", status)

    async with running(application(none)) as server:
        client = await server.connect()
        got = await client.ask()
        assert (got.status, "content-length" in got.headers, "transfer-encoding" in got.headers) == (status, False, False)
        assert (await client.ask()).status == status


async def stream(_scope: Any, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for piece in (b"one", b"", b"two"):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body"})


async def test_a_streamed_answer_is_chunked() -> None:
    async with running(application(stream)) as server:
        client = await server.connect()
        got = await client.ask()
        assert (got.body, got.headers["transfer-encoding"]) == (b"onetwo", "chunked")
        assert (await client.ask()).body == b"onetwo"


async def test_an_old_client_gets_its_answer_and_the_end() -> None:
    async with running(application(stream)) as server:
        client = await server.connect()
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        head, _, body = (await client.raw()).partition(b"\r\n\r\n")
        assert body == b"onetwo"
        assert b"chunked" not in head
        assert b"connection: close" in head


async def test_a_client_may_ask_for_the_end() -> None:
    async with running(application(greet)) as server:
        client = await server.connect()
        assert (await client.ask(b"GET / HTTP/1.1\r\n" + HOST + b"Connection: foo, Close\r\n\r\n")).headers["connection"] == "close"
        assert await client.closed()


async def test_an_application_may_ask_for_the_end() -> None:
    async def last(_scope: Any, _receive: Receive, send: Send) -> None:
        await answer(send, headers=[(b"Connection", b"close")])

    async with running(application(last)) as server:
        client = await server.connect()
        assert (await client.ask()).headers["connection"] == "close"
        assert await client.closed()


async def test_a_half_closed_client_gets_its_answer() -> None:
    async with running(application(greet)) as server:
        client = await server.connect()
        await client.send(GET)
        assert isinstance(client.stream, trio.SocketStream)
        await client.stream.send_eof()
        assert (await client.raw()).endswith(b"ok")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no host"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400, id="two hosts"),
        pytest.param(b"nonsense\r\n\r\n", 400, id="no request line"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", 400, id="tls on the plain port"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"bad header: 1\r\n\r\n", 400, id="space in a header name"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"x : 1\r\n\r\n", 400, id="space before the colon"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"x: \0\r\n\r\n", 400, id="nul in a header"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"x: a\rb\r\n\r\n", 400, id="lone carriage return"),
        pytest.param(b"GET / HTTP/3.0\r\n" + HOST + b"\r\n", 505, id="unknown version"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), 505, id="http/2 by prior knowledge"),
        pytest.param(b"GET path HTTP/1.1\r\n" + HOST + b"\r\n", 400, id="a target that is no path"),
        pytest.param(b"GET * HTTP/1.1\r\n" + HOST + b"\r\n", 400, id="asterisk without options"),
        pytest.param(b"CONNECT elsewhere.test:443 HTTP/1.1\r\n" + HOST + b"\r\n", 400, id="connect"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 400, id="websocket"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"x: " + b"a" * 40_000 + b"\r\n\r\n", 431, id="a large header"),
        pytest.param(b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431, id="a long target"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"x: 1\r\n" * 6_000 + b"\r\n", 431, id="many headers"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"x: 1\r\n" * 100 + b"\r\n", 431, id="a header line too many"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 3_900, 431, id="header lines without end"),
        pytest.param(CHUNKED + b"0\r\n" + b"a: 1\r\n" * 101 + b"\r\n", 431, id="a trailer too many"),
        pytest.param(CHUNKED + b"0\r\na: " + b"a" * 40_000 + b"\r\n\r\n", 431, id="a large trailer"),
        # Ways to smuggle one request inside another.
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400, id="folded coding"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"x: 1\r\n\tContent-Length: 5\r\n\r\n", 400, id="a folded header"),
        pytest.param(b"GET / HTTP/1.1\r\n " + HOST + b"\r\n", 400, id="a fold before all headers"),
        pytest.param(b"GET / HTTP/1.1\n" + HOST + b"\r\n", 400, id="request line without carriage return"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"x: 1\nContent-Length: 5\r\n\r\n", 400, id="header without carriage return"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: postern.test\n\n" + GET, 400, id="end of the head without carriage returns"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"\n" + GET, 400, id="blank line without carriage return"),
        pytest.param(CHUNKED + b"0\r\na: 1\nb: 2\r\n\r\n", 400, id="trailer without carriage return"),
        pytest.param(CHUNKED + b"0\r\n\n" + GET, 400, id="end of the trailers without carriage return"),
        pytest.param(CHUNKED + b"0\r\na: 1\r\n b\r\n\r\n", 400, id="folded trailer"),
        pytest.param(CHUNKED + b"0\r\nno trailer\r\n\r\n", 400, id="a trailer that is none"),
        pytest.param(CHUNKED + b"1\na\r\n0\r\n\r\n", 400, id="chunk size without carriage return"),
        pytest.param(CHUNKED + b"1;a\rb\r\na\r\n0\r\n\r\n", 400, id="carriage return in an extension"),
        pytest.param(CHUNKED + b"1;a\nb\r\na\r\n0\r\n\r\n", 400, id="line feed in an extension"),
        pytest.param(CHUNKED + b"1 ;a\r\na\r\n0\r\n\r\n", 400, id="space before an extension"),
        pytest.param(CHUNKED + b"1;\0\r\na\r\n0\r\n\r\n", 400, id="nul in an extension"),
        pytest.param(CHUNKED + b"1;" + b"a" * 300 + b"\r\na\r\n0\r\n\r\n", 400, id="a long extension"),
        pytest.param(CHUNKED + b"1" * 17 + b"\r\n", 400, id="a chunk of more than there is"),
        pytest.param(CHUNKED + b"1\r\na\n0\r\n\r\n", 400, id="end of a chunk without carriage return"),
        pytest.param(
            b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, id="cl and te"
        ),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody", 400, id="two lengths"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4, 5\r\n\r\nbody", 400, id="a list of lengths"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +4\r\n\r\nbody", 400, id="signed length"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 0x4\r\n\r\nbody", 400, id="hexadecimal length"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, id="other coding"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, id="odd coding"),
        pytest.param(
            b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            501,
            id="coded twice",
        ),
        pytest.param(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, id="chunked in 1.0"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, id="bad chunk size"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400, id="negative chunk size"),
        pytest.param(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400, id="chunk longer than it says"),
        pytest.param(
            b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 30_000, 400, id="a body of crumbs"
        ),
    ],
)
async def test_what_is_not_a_request_is_answered_and_the_connection_closed(request_bytes: bytes, status: int) -> None:
    async with running(application(echo)) as server:
        client = await server.connect()
        await client.send(request_bytes)
        # The bytes that follow must never be taken for another request: exactly one answer, then the end.
        with trio.fail_after(PATIENCE):
            answered = await client.raw()
        await client.stream.aclose()
        head, _, body = answered.partition(b"\r\n\r\n")
        assert int(head.split()[1]) == status
        assert b"connection: close" in head.lower()
        assert set(json.loads(body)) == {"error", "error_code", "timestamp"}
        assert json.loads(body)["error_code"] == "BAD_REQUEST"
        assert (await server.ask()).status == 200


async def test_as_many_header_lines_and_trailers_as_allowed_are_read() -> None:
    async with running(application(echo)) as server:
        client = await server.connect()
        head = CHUNKED.removesuffix(b"\r\n") + b"x: 1\r\n" * 98 + b"\r\n"
        assert (await client.ask(head + b"1;name=value\r\na\r\n0\r\n" + b"x: 1\r\n" * 100 + b"\r\n")).body == b"a"
        assert (await client.ask()).status == 200


@pytest.mark.parametrize("cut", range(6))
async def test_the_bound_on_a_head_does_not_depend_on_how_it_is_cut(cut: int) -> None:
    head = b"GET / HTTP/1.1\r\n" + HOST + b"x: "
    async with running(application(greet), ServerSettings(most_head_bytes=200)) as server:
        for over, status in ((0, 200), (1, 431)):
            whole = head.ljust(200 + over, b"x") + b"\r\n\r\n"
            client = await server.connect()
            await client.send(whole[: len(whole) - cut])
            await trio.sleep(0.01)
            await client.send(whole[len(whole) - cut :])
            assert (await client.answer()).status == status


async def test_a_method_in_small_letters_is_another_one() -> None:
    async def method(scope: Any, _receive: Receive, send: Send) -> None:
        await answer(send, scope["method"].encode())

    async with running(application(method)) as server:
        client = await server.connect()
        # `head` is not HEAD: its answer has a body, which the client would otherwise wait for.
        for name in (b"head", b"Get"):
            assert (await client.ask(name + b" / HTTP/1.1\r\n" + HOST + b"\r\n")).body == name


@pytest.mark.parametrize("length", [1, 2, 3, 5, 7])
async def test_a_request_may_come_in_pieces_of_any_length(length: int) -> None:
    """A piece may end anywhere, also between CR and LF."""
    whole = CHUNKED + b"3;x=1\r\nfoo\r\n4\r\nbars\r\n0\r\na: 1\r\nb:\r\n\r\n" + GET
    async with running(application(echo)) as server:
        client = await server.connect()
        for at in range(0, len(whole), length):
            await client.send(whole[at : at + length])
            await trio.sleep(0.0005)
        assert (await client.answer(b"POST")).body == b"foobars"
        assert (await client.answer()).status == 200


async def test_an_upgrade_to_http2_is_ignored() -> None:
    async with running(application(greet)) as server:
        client = await server.connect()
        upgrade = b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
        assert (await client.ask(upgrade)).body == b"ok"
        assert (await client.ask()).body == b"ok"


async def fail(_scope: Any, _receive: Receive, _send: Send) -> None:
    raise ValueError("secret")


async def fail_in_a_nursery(_scope: Any, _receive: Receive, _send: Send) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        raise ValueError("secret")


async def fail_after_the_start(_scope: Any, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise ValueError("secret")


async def say_nothing(_scope: Any, _receive: Receive, _send: Send) -> None:
    pass


async def miscount(_scope: Any, _receive: Receive, send: Send) -> None:
    await answer(send, b"body", headers=[(b"content-length", b"3")])


async def answer_halfway(_scope: Any, _receive: Receive, send: Send) -> None:
    await answer(send, status=103)


@pytest.mark.parametrize("failing", [fail, fail_in_a_nursery, fail_after_the_start, say_nothing, miscount, answer_halfway])
async def test_a_failing_application_is_logged_and_answered_for(failing: Any, log: CapturedLog) -> None:
    log.allow("asgi_application_failed")
    async with running(application(failing)) as server:
        client = await server.connect()
        for _ in range(2):
            got = await client.ask()
            assert (got.status, json.loads(got.body)["error_code"]) == (500, "INTERNAL_SERVER_ERROR")
            assert b"secret" not in got.body
    assert len(log.events("asgi_application_failed")) == 2


@pytest.mark.parametrize("value", [b"/\r\nset-cookie: a=b", b"/\nset-cookie: a=b", b"/\rset-cookie: a=b", b"/\0"])
async def test_an_application_cannot_be_made_to_send_two_headers_for_one(value: bytes, log: CapturedLog) -> None:
    async def redirect(_scope: Any, _receive: Receive, send: Send) -> None:
        await answer(send, headers=[(b"location", value)])

    log.allow("asgi_application_failed")
    async with running(application(redirect)) as server:
        got = await server.ask()
    assert got.status == 500
    assert "set-cookie" not in got.headers


async def test_an_application_that_fails_while_answering_breaks_the_connection_off(log: CapturedLog) -> None:
    async def half(_scope: Any, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ValueError

    log.allow("asgi_application_failed")
    async with running(application(half)) as server:
        client = await server.connect()
        await client.send(GET)
        answered = await client.raw()
    assert answered.endswith(b"4\r\nhalf\r\n")


async def test_a_listener_for_the_end_hears_it_when_the_answer_is_out() -> None:
    heard: list[str] = []

    async def listening(_scope: Any, receive: Receive, send: Send) -> None:
        assert (await receive())["more_body"] is False
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                heard.append((await receive())["type"])

            nursery.start_soon(listen)
            await trio.sleep(0)
            await answer(send)
        heard.append((await receive())["type"])

    async with running(application(listening)) as server:
        assert (await server.ask()).body == b"ok"
    assert heard == ["http.disconnect", "http.disconnect"]


async def test_quart_answers_through_it() -> None:
    quart = QuartTrio(__name__)
    started: list[str] = []

    @quart.before_serving
    async def start() -> None:
        started.append("start")

    @quart.after_serving
    async def stop() -> None:
        started.append("stop")

    @quart.post("/echo")
    async def echoed() -> Any:
        from quart import request  # noqa: PLC0415 - a name that exists only while a request does

        return {"got": await request.get_data(as_text=True)}

    async with running(quart) as server:
        client = await server.connect()
        for _ in range(2):
            got = await client.ask(b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n\r\nbody")
            assert json.loads(got.body) == {"got": "body"}
            assert (await client.ask(b"GET /none HTTP/1.1\r\n" + HOST + b"\r\n")).status == 404
        assert started == ["start"]
    assert started == ["start", "stop"]


async def test_an_application_that_cannot_start_stops_the_server() -> None:
    quart = QuartTrio(__name__)

    @quart.before_serving
    async def start() -> None:
        raise ValueError("no database")

    with pytest.RaisesGroup(LifespanFailureError, flatten_subgroups=True):
        async with running(quart):
            pass


async def test_what_one_request_binds_to_the_log_is_gone_in_the_next(log: CapturedLog) -> None:
    import structlog  # noqa: PLC0415

    async def bind(scope: Any, _receive: Receive, send: Send) -> None:
        if scope["path"] == "/bind":
            structlog.contextvars.bind_contextvars(request_id="first")
        structlog.get_logger().info("asked")
        await answer(send)

    async with running(application(bind)) as server:
        client = await server.connect()
        await client.ask(b"GET /bind HTTP/1.1\r\n" + HOST + b"\r\n")
        await client.ask()
    assert [entry.get("request_id") for entry in log.events("asked")] == ["first", None]


def test_tls_takes_both_halves(tmp_path: Any) -> None:
    build: Callable[..., ServerSettings] = ServerSettings
    with pytest.raises(ValueError, match="both"):
        build(certificate=tmp_path / "certificate.pem")
