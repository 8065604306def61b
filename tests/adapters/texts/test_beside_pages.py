"""Texts stand beside the page that shows them."""

import tomllib
from pathlib import Path

import pytest

from adapters.texts import UnreadableCatalogue, read_catalogue, shipped, sources, spoken
from core.domain.languages import CONSOLE_LANGUAGES, DEFAULT, Language
from tests.places import PAGES

# Texts that several pages of the folder, or of folders beneath it, share.
SHARED = "shared"
MAIL = """[en.mail.sent]
title = "Sent"

[de.mail.sent]
title = "Gesendet"
"""


def test_each_file_is_named_by_a_page_of_its_folder() -> None:
    assert sources(PAGES)
    for source in sources(PAGES):
        folder = source.parent.parent
        beside = {one.stem for one in folder.iterdir() if one.suffix in {".py", ".html"}}
        assert source.stem in beside | {SHARED}, source


def test_each_file_has_the_same_sections_in_all_languages_of_the_console() -> None:
    for source in sources(PAGES):
        tree = tomllib.loads(source.read_text(encoding="utf-8"))
        assert set(tree) == set(CONSOLE_LANGUAGES), source
        assert all(keys(tree[language]) == keys(tree[DEFAULT]) for language in CONSOLE_LANGUAGES), source


def keys(tree: object) -> list[object]:
    return [(name, keys(value)) for name, value in tree.items()] if isinstance(tree, dict) else []


def test_one_language_is_read() -> None:
    assert read_catalogue(spoken(Language.GERMAN, MAIL)) == {"mail.sent.title": "Gesendet"}
    assert read_catalogue(spoken(Language.ENGLISH, MAIL)) == {"mail.sent.title": "Sent"}
    assert read_catalogue(spoken(Language.FRENCH, MAIL)) == {}


def test_a_text_is_said_once(tmp_path: Path) -> None:
    for page in ("one", "two"):
        (tmp_path / page / "texts").mkdir(parents=True)
        (tmp_path / page / "texts" / "sent.toml").write_text(MAIL)
    with pytest.raises(UnreadableCatalogue, match=r"two/texts/sent\.toml: .* the text mail\.sent\.title exists already"):
        shipped(Language.GERMAN, tmp_path)
    assert "mail.sent.title" not in shipped(Language.FRENCH, tmp_path)
