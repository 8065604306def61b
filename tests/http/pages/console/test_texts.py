"""Every text that a declared resource asks for exists."""

from adapters.texts.reading import shipped
from core.domain.languages import DEFAULT
from entrypoints.http.pages.console import pages
from entrypoints.http.pages.console.visit import _BUTTONS
from tests.http.pages.console.texts import asked_for
from tests.places import PAGES


def test_what_resources_ask_for_exists() -> None:
    texts = shipped(DEFAULT, PAGES)
    assert sorted(key for key in asked_for() if key not in texts and f"{key}.one" not in texts) == []


def test_each_button_has_a_result_in_words() -> None:
    """The notice after a form says what came of it, and never the button's own words."""
    texts = shipped(DEFAULT, PAGES)
    assert pages.__name__  # all pages are declared
    results = {key.removeprefix("console.").replace(".", "_"): texts[key] for key in _BUTTONS}
    assert {f"console.result.{name}" for name in results} == {key for key in texts if key.startswith("console.result.")}
    assert [name for name, label in results.items() if label in texts[f"console.result.{name}"]] == []
