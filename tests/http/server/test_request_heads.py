"""Our reading of a request's head, compared with h11's: we accept nothing that h11 refuses or reads otherwise."""

from urllib.parse import urlsplit

import h11
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from entrypoints.http.server.bodies import SECTION_END, MalformedBody, is_complete
from entrypoints.http.server.heads import RequestHead

TOKEN = st.text("!#$%&'*+-.^_`|~09azAZ", min_size=1, max_size=6).map(str.encode)
VALUE = st.binary(max_size=8).map(lambda value: bytes(byte for byte in value if byte >= 0x20 and byte != 0x7F).strip(b" "))
SPACE = st.sampled_from([b"", b" ", b"\t", b"  \t "])
TARGET = st.sampled_from([b"/", b"/a%20b?c=d", b"//", b"http://a.test/", b"HTTPS://a.test:8/b?c=/d", b"http://[::1]", b"http://a?b/c"])
READ_BY_US = st.sampled_from(
    [
        (b"Content-Length", b"4"),
        (b"content-length", b"0"),
        (b"Transfer-Encoding", b"Chunked"),
        (b"Connection", b"x, Close"),
        (b"CONNECTION", b"keep-alive"),
        (b"Expect", b"100-continue"),
        (b"Upgrade", b"h2c"),
    ]
)
FIELD = st.tuples(TOKEN, VALUE).filter(lambda field: field[0].lower() != b"host") | READ_BY_US
# Parts of a head, good and bad.
PIECES = [
    *(b"GET", b"POST", b" ", b"/", b"*", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"\r\n", b"\r\n", b"\r\n", b"\r", b"\n", b"\t", b"\0"),
    *(b"Host: a", b"host:a", b"Host : a", b":", b"a", b"x: 1", b"x:", b"x:\x7f", b"x: \x80", b"x: \x0b1", b"\xff: 1", b"(: 1"),
    *(b"Content-Length: 4", b"Content-Length:4, 4", b"content-length: 04", b"Content-Length: -1"),
    *(b"Content-Length:", b"Content-Length: \xb2", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked"),
    *(b"transfer-encoding:\tCHUNKED ", b"Transfer-Encoding: \x0bchunked"),
]


def read(sent: bytes) -> tuple[RequestHead, bytes]:
    """Reads as the server does: lines first, then the head. Raises `MalformedBody`."""
    if not is_complete(sent, 100):
        raise MalformedBody(400, "There is more to come")
    section, _, rest = sent.partition(SECTION_END)
    return RequestHead(section), rest


def read_by_h11(sent: bytes) -> tuple[h11.Request, bytes]:
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(sent)
    request = parser.next_event()
    assert isinstance(request, h11.Request)
    return request, parser.trailing_data[0]


def alike(sent: bytes) -> None:
    head, rest = read(sent)
    request, rest_by_h11 = read_by_h11(sent)
    target, expected = request.target, list(request.headers)
    if not target.startswith((b"/", b"*")):
        # h11 does not change this form.
        parts = urlsplit(target)
        target = (parts.path or b"/") + (b"?" + parts.query if parts.query else b"")
        expected = [(b"host", parts.netloc), *((name, value) for name, value in expected if name != b"host")]
    assert (head.method, head.target, rest) == (request.method.decode(), target, rest_by_h11)
    assert head.old == (request.http_version == b"1.0")
    # h11 writes the only coding in lower-case letters.
    assert [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in head.headers] == expected
    lengths = [int(value) for name, value in request.headers if name == b"content-length"]
    chunked = any(name == b"transfer-encoding" for name, _ in request.headers)
    assert head.length == (None if chunked else lengths[0] if lengths else 0)


LINE = st.lists(st.sampled_from(PIECES) | st.binary(max_size=2), max_size=3).map(b"".join)


@settings(max_examples=1_000)
@given(st.lists(LINE, max_size=5), st.sampled_from([b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: a\r\n"]))
def test_what_is_accepted_is_read_as_h11_reads_it(lines: list[bytes], beginning: bytes) -> None:
    sent = beginning + b"\r\n".join(lines) + SECTION_END
    try:
        read(sent)
    except MalformedBody:
        event("refused")
        return
    event("accepted")
    alike(sent)


@given(TOKEN, TARGET, st.sampled_from([b"1.1", b"1.0"]), st.lists(st.tuples(FIELD, SPACE, SPACE), max_size=8), st.binary(max_size=5))
def test_a_head_by_the_grammar_is_read_unless_its_length_is_said_twice(
    method: bytes, target: bytes, version: bytes, fields: list[tuple[tuple[bytes, bytes], bytes, bytes]], rest: bytes
) -> None:
    lines = [b"%b:%b%b%b" % (name, before, value, after) for (name, value), before, after in fields]
    sent = b"\r\n".join([b"%b %b HTTP/%b" % (method, target, version), b"Host: a", *lines]) + SECTION_END + rest
    framing = [name.lower() for (name, _), _, _ in fields if name.lower() in {b"content-length", b"transfer-encoding"}]
    if len(framing) > 1 or (version == b"1.0" and b"transfer-encoding" in framing):
        with pytest.raises(MalformedBody):
            read(sent)
    else:
        alike(sent)


@pytest.mark.parametrize(
    "line",
    [
        *(b"x: \x01", b"x: \x7f", b"x: a\x0bb"),
        # One length, given twice.
        *(b"Content-Length: 4, 4", b"Content-Length: 4\r\nContent-Length: 4", b"Content-Length: " + b"0" * 20),
        *(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"Transfer-Encoding:"),
        *(b"Content-Length:", b"Content-Length: 4\r\nTransfer-Encoding: chunked", b"Upgrade: WebSocket"),
    ],
)
def test_what_other_parsers_may_let_through_is_refused(line: bytes) -> None:
    with pytest.raises(MalformedBody):
        read(b"POST / HTTP/1.1\r\nHost: a\r\n" + line + SECTION_END)


@pytest.mark.parametrize("host", [b"a b", b"a, b", b"a@b", b"a:b", b"[::1", b"::1", b"a\xe9", b"a#"])
def test_a_host_that_is_none_is_refused(host: bytes) -> None:
    with pytest.raises(MalformedBody):
        RequestHead(b"GET / HTTP/1.1\r\nHost: " + host)
    with pytest.raises(MalformedBody):
        RequestHead(b"GET http://" + host + b":80/c HTTP/1.1\r\nHost: d")


@pytest.mark.parametrize("host", [b"a/b", b"a?b", b"http://a"])
def test_a_host_is_no_address(host: bytes) -> None:
    with pytest.raises(MalformedBody):
        RequestHead(b"GET / HTTP/1.1\r\nHost: " + host)


@pytest.mark.parametrize("host", [b"", b"a.test", b"A-b_c.test:8443", b"127.0.0.1:80", b"[2001:db8::1]:80", b"a:"])
def test_a_host_is_read_as_it_is(host: bytes) -> None:
    assert RequestHead(b"GET / HTTP/1.1\r\nHost: " + host).headers == [(b"host", host)]


@pytest.mark.parametrize("target", [b"http:///c", b"http:/c", b"ftp://a/c", b"a/c", b"/c#d", b"http://a#/c", b"//c#", b"*", b"a:80"])
def test_a_target_that_is_none_is_refused(target: bytes) -> None:
    with pytest.raises(MalformedBody):
        RequestHead(b"GET " + target + b" HTTP/1.1\r\nHost: d")


@pytest.mark.parametrize("version", [b"1.1\r\nHost: d", b"1.0"])
def test_a_target_that_names_its_host_is_believed(version: bytes) -> None:
    head = RequestHead(b"GET http://a.test:8?b HTTP/" + version + b"\r\nc: d")
    assert (head.target, head.headers) == (b"/?b", [(b"host", b"a.test:8"), (b"c", b"d")])


def test_small_letters_make_another_method() -> None:
    assert RequestHead(b"head / HTTP/1.1\r\nHost: a").method == "head"
