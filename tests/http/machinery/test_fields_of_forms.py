"""Forms and queries are taken apart as Python's own `parse_qsl` takes them."""

from urllib.parse import parse_qsl

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.domain.errors import Refusal
from entrypoints.http.machinery.decoding import FieldsReader


class _Nothing(msgspec.Struct, frozen=True):
    pass


_MOST = 5
_READER = FieldsReader(_Nothing, "The form", _MOST)


@given(st.text("ab&=%+2FfCc3Aa9z;", max_size=40))
@example("redirect_uri=https%3A%2F%2Fshop.example%2Fcallback&state=a+b%20c")
@example("=&a&&b=&=c&a=b=c")
@example("a=%&b=%z1&c=%4")
@example("n%C3%A9=%F0%9F%91%A9")
@example("")
def test_fields_are_those_of_parse_qsl(text: str) -> None:
    try:
        expected = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST)
    except ValueError:
        with pytest.raises(Refusal):
            _READER._pairs(text.encode())
    else:
        assert _READER._pairs(text.encode()) == expected
