"""Values are kept apart from the words around them, so that neither turns the other. RLO and its like never come so far: `one_line` takes
them out of names.
"""

import unicodedata
from datetime import UTC, datetime

import pytest
from markupsafe import Markup

from adapters.texts import ShippedTexts
from adapters.texts.catalogue import Catalogue
from core.domain.languages import Language

FROM_THE_RIGHT = "".join(map(chr, (0x64A, 0x627, 0x633, 0x645, 0x64A, 0x646)))
TEXTS = {"page.asked": "{who} asks for {what}", "page.apples.other": "{count}%", "page.title": "Apples"}
NOW = datetime(2026, 3, 12, 14, 5, tzinfo=UTC)


def isolated(value: str) -> str:
    return f"\u2068{value}\u2069"


def of(language: Language, *, html: bool = False) -> Catalogue:
    return Catalogue(language, TEXTS, html=html)


@pytest.mark.parametrize("html", [False, True])
def test_among_words_from_right_to_left_each_value_is_kept_apart(html: bool) -> None:
    text = of(Language.ARABIC, html=html)
    assert text("page.asked", who="Ada", what=FROM_THE_RIGHT) == f"{isolated('Ada')} asks for {isolated(FROM_THE_RIGHT)}"
    assert text.isolated("Ada") == isolated("Ada")
    assert text("page.title") == "Apples"


def test_an_element_among_them_is_kept_apart_too() -> None:
    """A link or a code runs from left to right, and is no `<bdi>`."""
    said = of(Language.ARABIC, html=True)("page.asked", who=Markup("<a>Ada</a>"), what="<b>")
    assert said == f"{isolated('<a>Ada</a>')} asks for {isolated('&lt;b&gt;')}"
    assert isinstance(said, Markup)
    assert isinstance(of(Language.ARABIC, html=True).isolated("Ada"), Markup)


def test_a_number_joins_the_sentence() -> None:
    assert of(Language.ARABIC)("page.apples", count=50) == "50%"


@pytest.mark.parametrize("html", [False, True])
def test_among_words_from_left_to_right_what_runs_the_other_way_is_kept_apart(html: bool) -> None:
    text = of(Language.ENGLISH, html=html)
    assert text("page.asked", who=FROM_THE_RIGHT, what="Söhne") == f"{isolated(FROM_THE_RIGHT)} asks for Söhne"
    # A template has put it into `<bdi>`.
    assert text("page.asked", who=Markup("<bdi>") + FROM_THE_RIGHT, what=3) == f"<bdi>{FROM_THE_RIGHT} asks for 3"
    assert (text.isolated(FROM_THE_RIGHT), text.isolated("Ada")) == (isolated(FROM_THE_RIGHT), "Ada")


@pytest.mark.parametrize("code", [0x05D0, 0x0627, 0x0710, 0x0780, 0x07CA, 0x0840, 0xFB1D, 0xFE8D, 0x10A00, 0x1E900])
def test_letters_of_each_script_from_right_to_left_are_known(code: int) -> None:
    assert unicodedata.bidirectional(chr(code)) in {"R", "AL"}
    assert of(Language.GERMAN).isolated(chr(code)) == isolated(chr(code))


def test_every_letter_from_right_to_left_is_known() -> None:
    text = of(Language.GERMAN)
    letters = [chr(code) for code in range(0x80, 0x1F000) if unicodedata.bidirectional(chr(code)) in {"R", "AL"} and chr(code) != "\u200f"]
    assert len(letters) > 1500
    assert [letter for letter in letters if text.isolated(letter) != isolated(letter)] == []


@pytest.mark.parametrize("language", Language)
def test_a_moment_is_all_ours(language: Language) -> None:
    """Its month and its day are words of the language, so nothing in it is kept apart."""
    moment = ShippedTexts().of(language).moment(NOW)
    assert "14:05" in moment
    assert not set("\u2068\u2069") & set(moment)
