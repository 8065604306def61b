"""Every text that a declared resource asks for exists."""

from collections import Counter
from pathlib import Path

import pytest

from adapters.texts import read_catalogue, shipped, sources, spoken
from core.domain.languages import CONSOLE_LANGUAGES, DEFAULT, Language
from entrypoints.http.console import pages
from entrypoints.http.console.kit.visit import _BUTTONS
from tests.adapters.texts.test_beside_pages import SHARED
from tests.http.pages.console.texts import asked_for, resources, said_at, shapes_of
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


def test_no_page_takes_the_words_of_another_by_accident() -> None:
    """A label, or a value of a field, stands in the file beside its page, or in a file for all pages of a folder. So a new field whose
    name another page has already reads as it should, or fails here.
    """
    homes = {key: source for source in sources(PAGES) for key in read_catalogue(spoken(DEFAULT, source.read_text(encoding="utf-8")))}
    said = set(said_at())
    assert sorted(key for _, key in said if key not in homes) == []
    taken = [(str(module.relative_to(PAGES)), key) for module, key in said if not _is_beside(module, homes[key])]
    assert sorted(taken) == []


def _is_beside(module: Path, source: Path) -> bool:
    folder = source.parent.parent
    return folder in module.parents if source.stem == SHARED else source.parent.parent / source.stem == module.with_suffix("")


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_no_form_has_two_fields_of_one_name(language: Language) -> None:
    texts = shipped(language, PAGES)
    twice = [
        (resource.name, label)
        for resource in resources()
        for shape in shapes_of(resource)
        for label, times in Counter(texts[key] for key in {(one.name, one.label): one.label for one in shape.inputs}.values()).items()
        if times > 1
    ]
    assert twice == []
