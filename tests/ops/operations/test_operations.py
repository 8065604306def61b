"""The runbook is an index and eight pages, and what was an address in it when it was one page still leads to its text."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.ops.operations.pages import INDEX, PAGES, WHOLE, anchors, slug
from tests.places import ROOT

# Every heading of the one page. Others link to them, and so do the alerts of a rules file that nobody has renewed.
OF_ONE_PAGE: Final = Path(__file__).with_name("anchors.txt").read_text().split()
_LEADING: Final = re.compile(r'<a id="([^"]+)"></a>\[[^\]]+\]\(operations/([a-z-]+\.md)#([^)]+)\)')
_LINKED: Final = re.compile(r"operations((?:/[a-z-]+)?)\.md#([\w-]+)")
_QUOTED: Final = re.compile(r'operations((?:/[a-z-]+)?)\.md`?(?:,| says under) "([^"]+)"')
_FOLDERS: Final = ("docs", "core", "ports", "adapters", "actors", "entrypoints", "ops", "tests")
_TEXTS: Final = {".md", ".py", ".sh", ".yaml", ".toml", ".json", ".service", ".timer", ".html", ".txt", ""}


def texts() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in _FOLDERS:
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in _TEXTS and file.is_file() and file != Path(__file__):
                yield file


def lead_nowhere(file: Path) -> list[str]:
    """What names a heading of the runbook, by a link or in quotes, and that page has no such heading. The index has none but its title."""
    text = file.read_text(errors="replace")
    if "operations" not in text:
        return []
    named = [*_LINKED.findall(text), *((page, slug(heading)) for page, heading in _QUOTED.findall(text))]
    return [f"{page or 'index'}#{anchor}" for page, anchor in named if anchor not in headings(page)]


def headings(page: str) -> set[str]:
    file = ROOT / "docs" / f"operations{page}.md"
    return set(anchors(file)) if file.is_file() else set()


def test_every_address_of_the_one_page_leads_from_the_index_to_its_heading() -> None:
    found = _LEADING.findall(INDEX.read_text())
    assert sorted(at for at, _, _ in found) == sorted(OF_ONE_PAGE)
    for at, page, heading in found:
        assert heading == at
        assert heading in anchors(INDEX.parent / "operations" / page), f"{page}#{heading}"


def test_the_index_leads_to_each_of_the_eight_pages_and_each_page_back() -> None:
    assert len(PAGES) == 8
    listed = re.findall(r"^- \[([^\]]+)\]\(operations/([a-z-]+\.md)\)$", INDEX.read_text(), re.MULTILINE)
    assert sorted(listed, key=lambda one: one[1]) == [(page.read_text().partition("\n")[0].removeprefix("# "), page.name) for page in PAGES]
    assert [page.name for page in PAGES if "](../operations.md)" not in page.read_text()] == []


def test_no_heading_stands_on_two_pages() -> None:
    found = [heading for page in WHOLE for heading in anchors(page)]
    assert sorted(found) == sorted(set(found))


def test_whoever_names_a_heading_of_the_runbook_names_the_page_that_has_it() -> None:
    assert {str(file.relative_to(ROOT)): wrong for file in texts() if (wrong := lead_nowhere(file))} == {}


def test_a_heading_that_its_page_has_not_is_found(tmp_path: Path) -> None:
    file = tmp_path / "one.md"
    there = ("[a](operations/alerts.md#posterndown)", 'docs/operations/alerts.md, "PosternDown"')
    gone = ("[a](../operations.md#posterndown)", "[a](operations/none.md#alerts)", 'operations.md says under "Upgrade"')
    file.write_text("\n".join([*there, *gone]))
    assert lead_nowhere(file) == ["index#posterndown", "/none#alerts", "index#upgrade"]
