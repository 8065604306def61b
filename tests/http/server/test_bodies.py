"""The ends of heads and bodies, in pieces of every kind."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoints.http.server.bodies import Body, MalformedBody, WholeBody, is_complete

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\nb: c\r\n\r\n"


def read(body: Body, *pieces: bytes) -> bytes:
    whole = b""
    for piece in (b"", *pieces):
        body.feed(piece)
        while (got := body.next_piece()) is not None:
            whole += got
    return whole


def in_chunks(received: bytes = b"") -> Body:
    return Body(None, received, most_trailers=3, most_trailer_bytes=50)


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=5), st.data())
def test_a_body_is_the_same_however_it_is_cut(chunks: list[bytes], data: st.DataObject) -> None:
    sent = b"".join(b"%x;x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\na: b\r\n\r\n"
    sent += b"GET"
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=10))), len(sent)]
    body = in_chunks()
    assert read(body, *(sent[a:b] for a, b in pairwise(cuts))) == b"".join(chunks)
    assert (body.complete, body.rest) == (True, b"GET")


def test_a_counted_body_ends_where_its_length_says() -> None:
    body = Body(4, b"bo", most_trailers=3, most_trailer_bytes=50)
    assert read(body) == b"bo"
    assert not body.complete
    assert read(body, b"dy", b"GET") == b"dy"
    assert (body.complete, body.rest) == (True, b"GET")


def test_a_body_that_came_with_its_head_is_one_piece() -> None:
    body = WholeBody(b"body", b"GET")
    assert not body.complete
    assert (body.next_piece(), body.next_piece()) == (b"body", None)
    assert (body.complete, body.rest) == (True, b"GET")


def test_no_body_is_complete_from_the_start() -> None:
    body = WholeBody(b"", b"GET")
    assert (body.complete, body.next_piece(), body.rest) == (True, None, b"GET")


@pytest.mark.parametrize("at", range(len(HEAD)))
def test_part_of_a_head_is_neither_its_end_nor_a_fault(at: int) -> None:
    assert not is_complete(HEAD[:at], 2)
    assert is_complete(HEAD, 2)


@pytest.mark.parametrize("at", [len(b"GET / HTTP/1.1\r\nHost: a\r\nb: c\r\n"), len(HEAD)])
def test_lines_are_counted_before_their_end_has_come(at: int) -> None:
    with pytest.raises(MalformedBody) as refused:
        is_complete(HEAD[:at], 1)
    assert refused.value.status == 431


def test_trailers_have_a_bound_before_their_end_has_come() -> None:
    with pytest.raises(MalformedBody) as refused:
        read(in_chunks(b"0\r\na: " + b"b" * 60))
    assert refused.value.status == 431
