"""Every text that a declared resource asks for exists."""

from adapters.texts.reading import shipped
from core.domain.languages import DEFAULT
from tests.http.pages.console.texts import asked_for
from tests.places import PAGES


def test_what_resources_ask_for_exists() -> None:
    texts = shipped(DEFAULT, PAGES)
    assert sorted(key for key in asked_for() if key not in texts and f"{key}.one" not in texts) == []
