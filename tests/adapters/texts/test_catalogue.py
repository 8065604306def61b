"""How a text is put together: values, plurals, moments; as plain text and as HTML."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from markupsafe import Markup

from adapters.texts import ShippedTexts, UnreadableCatalogue, read_catalogue
from adapters.texts.catalogue import Catalogue
from core.domain.languages import Language

NOW = datetime(2026, 3, 1, 14, 5, tzinfo=UTC)
TEXTS = {
    "page.title": "Apples & pears",
    "page.sent": "Sent to {email}.",
    "page.apples.one": "{count} apple for {email}",
    "page.apples.other": "{count} apples for {email}",
}
HOSTILE = "<script>\"'&{count}</script>"


@pytest.fixture
def plain() -> Catalogue:
    return Catalogue(Language.ENGLISH, TEXTS, html=False)


@pytest.fixture
def html() -> Catalogue:
    return Catalogue(Language.ENGLISH, TEXTS, html=True)


def test_values_stand_in_their_places(plain: Catalogue) -> None:
    assert plain("page.title") == "Apples & pears"
    # What a value looks like does not matter, and what the text does not ask for is left out.
    assert plain("page.sent", email="{email}", other=1) == "Sent to {email}."


def test_a_number_chooses_the_form(plain: Catalogue) -> None:
    assert [plain("page.apples", count=count, email="a") for count in (0, 1, 2)] == ["0 apples for a", "1 apple for a", "2 apples for a"]
    assert Catalogue(Language.FRENCH, TEXTS, html=False)("page.apples", count=0, email="a") == "0 apple for a"


def test_html_escapes_text_and_values_and_keeps_what_is_html(html: Catalogue) -> None:
    assert html("page.title") == Markup("Apples &amp; pears")
    said = html("page.apples", count=2, email=HOSTILE)
    assert isinstance(said, Markup)
    assert said == "2 apples for &lt;script&gt;&#34;&#39;&amp;{count}&lt;/script&gt;"
    assert html("page.sent", email=Markup("<b>a</b>")) == "Sent to <b>a</b>."


@pytest.mark.parametrize(
    ("key", "values"), [("page.pears", {}), ("page", {}), ("", {}), ("page.sent", {}), ("page.apples", {"email": "a"})]
)
def test_what_is_missing_is_an_error(key: str, values: dict[str, str], plain: Catalogue) -> None:
    with pytest.raises(LookupError):
        plain(key, **values)


@pytest.mark.parametrize(
    ("language", "first", "later"),
    [
        (Language.ENGLISH, "1 March 2026, 14:05 UTC", "12 March 2026, 00:00 UTC"),
        (Language.GERMAN, "1. März 2026, 14:05 Uhr UTC", "12. März 2026, 00:00 Uhr UTC"),
        (Language.SPANISH, "1 de marzo de 2026, 14:05 UTC", "12 de marzo de 2026, 00:00 UTC"),
        (Language.FRENCH, "1er mars 2026 à 14:05 UTC", "12 mars 2026 à 00:00 UTC"),
    ],
)
def test_moments_are_told_in_words_with_their_time_zone(language: Language, first: str, later: str) -> None:
    text = ShippedTexts().of(language)
    assert text.moment(NOW) == first
    assert text.moment(datetime(2026, 3, 12, 1, tzinfo=timezone(timedelta(hours=1)))) == later


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-86_400 * 90, "30 May 2026, 14:05 UTC"),
        (-61, "1 March 2026, 14:06 UTC"),
        (-60, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (7199, "1 hour ago"),
        (7200, "2 hours ago"),
        (86_400 * 29, "29 days ago"),
        (86_400 * 59, "1 month ago"),
        (86_400 * 364, "12 months ago"),
        (86_400 * 800, "2 years ago"),
    ],
)
def test_how_long_ago_in_one_unit_and_when_if_it_is_to_come(seconds: int, words: str) -> None:
    assert ShippedTexts().of(Language.ENGLISH).ago(NOW - timedelta(seconds=seconds), NOW) == words


@pytest.mark.parametrize(
    "line", ["a = b", 'a = "b', 'a = ""', 'a = "b" # c', 'a="b"', 'a = "x\\n"', "[a", 'a = "1"\na = "2"', '[s]\na = "1"\n[s]\na = "2"']
)
def test_a_line_of_another_form_is_an_error(line: str) -> None:
    with pytest.raises(UnreadableCatalogue, match="Line"):
        read_catalogue(line)
