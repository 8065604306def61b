"""Moulds: markup that is made once and filled from then on says what its function would have said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.saml import signing
from adapters.saml.signing import Markup, Mould, element, worded
from core.domain.saml import RequestDeclined

_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff", include_characters="\t\n\r%&<>\"'"))


def _written(in_text: str, in_attribute: str, last: str) -> Markup:
    """Its attributes are not written in the order of its values."""
    return element("saml:One", {"B": last, "A": in_attribute, "C": "100 %s"}, worded("saml:Two", in_text))


_MOULD = Mould(_written)


@given(values=st.tuples(_TEXT, _TEXT, _TEXT))
def test_it_is_filled_with_any_text(values: tuple[str, str, str]) -> None:
    assert _MOULD(*values) == _written(*values)


@pytest.mark.parametrize("values", [("t", "a", "l"), ("", "", ""), ("%s", "%", "%(x)s"), ("<", "a", "l"), ("t", '"', "l"), ("t", "a", "&")])
def test_it_is_filled_with_what_looks_like_something_else(values: tuple[str, str, str]) -> None:
    assert _MOULD(*values) == _written(*values)


@pytest.mark.parametrize("value", ["\x00", "\x1f", "\ud800", "\uffff"])
@pytest.mark.parametrize("place", range(3))
def test_what_xml_cannot_have_is_refused_in_every_place(value: str, place: int) -> None:
    values = ["t", "a", "l"]
    values[place] = value
    with pytest.raises(RequestDeclined, match="characters that XML cannot have"):
        _MOULD(*values)


def test_plain_values_do_not_go_the_long_way() -> None:
    made = []

    def make(value: str) -> Markup:
        made.append(value)
        return worded("saml:One", value)

    mould = Mould(make)
    made.clear()
    assert mould("plain") == "<saml:One>plain</saml:One>"
    assert made == []
    assert mould("é") == "<saml:One>é</saml:One>"
    assert made == ["é"]


@pytest.mark.parametrize("character", [chr(code) for code in range(0x80)])
def test_plain_is_what_no_place_writes_in_another_way(character: str) -> None:
    try:
        written = {worded("saml:One", character), element("saml:One", {"A": character})}
    except RequestDeclined:
        written = set()
    same = written == {f"<saml:One>{character}</saml:One>", f'<saml:One A="{character}"></saml:One>'}
    # A line break stands for itself in text alone.
    assert signing._is_plain(character) is (same and character.isprintable())
