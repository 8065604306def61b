"""The page on which an organization chooses its languages, and the languages of the console itself."""

import pytest

from core.domain.languages import CONSOLE_LANGUAGES, Language
from entrypoints.http.pages.kit import shipped_pages
from tests.http.pages.console.conftest import ConsoleScene

_PAGE = "/settings/languages"


def kept(scene: ConsoleScene) -> str | None:
    (row,) = scene.people.rows("select languages from organizations where slug = 'acme'")
    found: str | None = row["languages"]
    return found


async def test_languages_are_chosen_in_order(console: ConsoleScene) -> None:
    tab = await console.at(_PAGE)
    assert "All available languages" in tab.page.text
    assert "Polski" in tab.page.text
    await console.submit(f"{_PAGE}/change", languages=["ar", "de"])
    assert kept(console) == "ar,de"
    tab = await console.at(_PAGE)
    # Each in an element, or the whole list would run from right to left where Arabic is the first.
    assert f'<bdi class="item">{Language.ARABIC.own_name}</bdi>, <bdi class="item">Deutsch</bdi>' in tab.shown.body.decode()
    assert "Not reviewed by a native speaker" in tab.page.text
    await console.submit(f"{_PAGE}/change", languages=["de", "ar"])
    assert kept(console) == "de,ar"
    await console.submit(f"{_PAGE}/change", languages=[""])
    assert kept(console) is None


async def test_a_language_stands_once_and_is_one_of_ours(console: ConsoleScene) -> None:
    await console.at(_PAGE)
    tab = await console.submit(f"{_PAGE}/change", languages=["de", "de"])
    assert tab.status == 400
    assert "Deutsch is in the list twice. Remove one entry." in tab.page.text
    await console.at(_PAGE)
    tab = await console.submit(f"{_PAGE}/change", languages=["xx"])
    assert tab.status == 400
    assert kept(console) is None


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_each_language_is_called_by_its_own_name(language: Language) -> None:
    text = shipped_pages().text(language)
    assert {one: text(f"console.languages.name_{one}") for one in Language} == {one: one.own_name for one in Language}


@pytest.mark.parametrize(
    ("chosen", "accepted", "spoken"),
    [("pl", "pl", "en"), ("pl", "de", "de"), (None, "ar, fr;q=0.2", "fr"), ("es", "pl", "es"), (None, "ja", "en")],
)
async def test_the_console_speaks_the_best_of_its_four(chosen: str | None, accepted: str, spoken: str, console: ConsoleScene) -> None:
    console.people.change("update users set language = %s where id = %s", chosen, console.ada.user)
    console.people.change("update organizations set languages = 'ar,pl'")
    console.tabs.language = accepted
    for place in ("", _PAGE, "/people/roles/nothing"):
        tab = await console.at(place)
        assert tab.shown.header("content-language") == spoken, place
        assert f'<html lang="{spoken}"'.encode() in tab.shown.body, place
    says_so = shipped_pages().text(Language(spoken))("console.languages_only")
    assert (says_so in (await console.at()).page.text) is (chosen == "pl")
    assert says_so not in (await console.at(_PAGE)).page.text
    # Pages of one's own account follow the person.
    shown = await console.tab.open("/ui/profile")
    assert shown.shown.header("content-language") == (chosen or accepted.partition(",")[0])
