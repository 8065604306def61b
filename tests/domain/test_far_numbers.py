"""Numbers of JSON that take a thousand times as long to read as others: counted outside of texts, whatever stands around them."""

import pytest

from core.domain.far_numbers import MOST_FAR_NUMBERS, has_many_far_numbers, outside_of_texts

_MANY = MOST_FAR_NUMBERS + 1


def listed(number: str, times: int) -> bytes:
    return f"[{','.join([number] * times)}]".encode()


@pytest.mark.parametrize("number", ["1e-320", "1E300", "1.7976931348623157e308", "1e+307", "-5e-324", "1e-0000320"])
def test_many_far_numbers(number: str) -> None:
    assert has_many_far_numbers(listed(number, _MANY))
    assert not has_many_far_numbers(listed(number, MOST_FAR_NUMBERS))


@pytest.mark.parametrize("number", ["1e10", "1.5e-99", "1e0099", "320", "0.320"])
def test_other_numbers(number: str) -> None:
    assert not has_many_far_numbers(listed(number, 50_000))


@pytest.mark.parametrize("before", ["", "x" * 40_000, "\\\\", '\\"', '\\\\\\"'])
def test_what_stands_in_texts_does_not_count(before: str) -> None:
    digests = ("1e320 " * 20_000).encode()
    text = b'["' + before.encode() + digests + b'"'
    assert not has_many_far_numbers(text + b"]")
    assert has_many_far_numbers(text + b"," + listed("1e320", _MANY) + b"]")


def test_texts_are_left_out_over_the_ends_of_slices() -> None:
    body = b'{"' + b"a" * 100_000 + b'":[1,"' + b"b" * 100_000 + b'"]}'
    assert b"".join(outside_of_texts(body)).replace(b'"', b"") == b"{:[1,]}"
