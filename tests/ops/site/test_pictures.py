"""The pictures of the documents are those that `make pictures` takes, and a command says when pages no longer look so."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from ops import pictures
from ops.pictures import MADE_OF, OLD, PICTURES, are_as_pages_are, made_of
from tests.browser.document_pictures import ALL, OF_THE_CONSOLE
from tests.places import ROOT

_PAGES: Final = "entrypoints/http/pages"
# A name, what one sees, and the picture.
_SHOWN: Final = re.compile(r"^\*\*[^*]+\.\*\* [A-Z][^!]+\.\n\n!\[[^\]]+\]\(pictures/([\w-]+)\.webp\)$", re.MULTILINE)
_MADE: Final = {
    f"{_PAGES}/account/lock.html": "<p>Lock</p>",
    f"{_PAGES}/console.css": "a { color: red }",
    f"{_PAGES}/pages.js": "one()",
    f"{_PAGES}/account/texts/lock.toml": '[en.lock]\npage = "Lock"\n[de.lock]\npage = "Sperren"\n',
    "adapters/texts/en.toml": '[sign_in]\ntitle = "Sign in"\n',
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout whose pictures are as its pages are."""
    for name, text in {**_MADE, MADE_OF: ""}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / MADE_OF).write_text(f"{made_of(tmp_path)}\n")
    assert are_as_pages_are(tmp_path)
    return tmp_path


def with_text(file: Path, former: str, new: str) -> None:
    text = file.read_text()
    assert former in text
    file.write_text(text.replace(former, new))


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: with_text(tree / _PAGES / "account/lock.html", "Lock", "Lock it"),
        lambda tree: with_text(tree / _PAGES / "console.css", "red", "blue"),
        lambda tree: with_text(tree / _PAGES / "pages.js", "one", "two"),
        lambda tree: with_text(tree / _PAGES / "account/texts/lock.toml", '"Lock"', '"Lock it"'),
        lambda tree: with_text(tree / "adapters/texts/en.toml", "Sign in", "Log in"),
        lambda tree: (tree / _PAGES / "new.html").write_text(""),
        lambda tree: (tree / _PAGES / "pages.js").unlink(),
        lambda tree: (tree / MADE_OF).unlink(),
    ],
    ids=["template", "style", "script", "text beside a page", "text of the catalogue", "new page", "script gone", "never taken"],
)
def test_another_template_text_or_style_makes_pictures_old(change: Callable[[Path], object], tree: Path) -> None:
    change(tree)
    assert not are_as_pages_are(tree)


def test_code_and_other_languages_leave_them_as_they_are(tree: Path) -> None:
    with_text(tree / _PAGES / "account/texts/lock.toml", "Sperren", "Absperren")
    (tree / _PAGES / "lock.py").write_text("1")
    (tree / "adapters/texts/de.toml").write_text('[sign_in]\ntitle = "Anmelden"\n')
    assert are_as_pages_are(tree)


def test_the_command_says_what_to_run(tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pictures, "ROOT", tree)
    assert pictures.main() == 0
    (tree / MADE_OF).write_text("others\n")
    assert pictures.main() == 1
    assert capsys.readouterr().out.strip().lower() == OLD.lower()
    assert "run make pictures" in OLD


def test_the_pictures_are_those_that_the_command_takes() -> None:
    assert {file.name for file in (ROOT / PICTURES).glob("*")} == {*(f"{one.file}.webp" for one in ALL), Path(MADE_OF).name}


def test_the_page_of_the_console_has_a_sentence_for_each_picture() -> None:
    assert _SHOWN.findall((ROOT / "docs" / "console.md").read_text()) == [one.file for one in OF_THE_CONSOLE]
