"""The index of decisions has every page in force once, under its own title, and names the successors of a page that is superseded in part.
The list of history has the pages that are superseded as a whole. Each number that code, tests and documents name has its page.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from ops.site.__main__ import index
from tests.ops.test_documents import CODE, DECISIONS, HISTORY
from tests.places import ROOT

INDEX: Final = (ROOT / "docs" / "decisions" / "README.md").read_text()
ENTRY: Final = re.compile(r"^- \[(\d{4})\]\(([^)]+)\):((?:.+\n(?:  .+\n)*))", re.MULTILINE)
NAMED: Final = re.compile(r"\]\((\d{4})-")
SUPERSEDED: Final = ". Superseded in part by "
STATUS: Final = re.compile(r"^Status: .*$", re.MULTILINE)
# A number of four digits below 0400, and no part of a date, a time, a path, a port, a UUID or a phone number. "0000" is no decision.
NUMBER: Final = re.compile(r"(?<![\w.:/\-+#%$])(?!0000)0[0-3]\d\d(?![\w\-:/%]|\.\d)")
PAGE: Final = re.compile(r"decisions/(?:history/)?(\d{4})")
WRITTEN: Final = (".md", ".py", ".sql", ".js", ".css", ".toml", ".yaml", ".html", ".sh")
SENTENCE: Final = re.compile(r"(?<=[.:])\s+(?=[A-Z*-])|\n\n")
PAGES: Final[Mapping[str, str]] = {page.name[:4]: page.read_text() for page in DECISIONS}
TODAY: Final = tuple(page.name[:4] for page in DECISIONS if page.stem.endswith("-today"))


def entries() -> list[tuple[str, str, str]]:
    return [(number, file, " ".join(said.split())) for number, file, said in ENTRY.findall(INDEX)]


def replaced(pages: Mapping[str, str]) -> set[tuple[str, str]]:
    """Pairs of an older and a newer page, from the sentences that say what supersedes what."""
    pairs: set[tuple[str, str]] = set()
    for number, text in pages.items():
        for sentence in SENTENCE.split(CODE.sub("", STATUS.sub("", text))):
            if "supersed" in sentence.lower():
                others = [other for other in NAMED.findall(sentence) if other != number]
                pairs.update((min(number, other), max(number, other)) for other in others or ["nobody"])
    return pairs


def test_every_decision_stands_in_the_index_once_with_its_title() -> None:
    titles = sorted((page.name[:4], page.name, page.read_text().splitlines()[0][8:]) for page in DECISIONS)
    assert sorted((number, file, said.partition(SUPERSEDED)[0]) for number, file, said in entries()) == titles


def test_the_index_names_the_successor_of_each_page_that_was_replaced_in_part() -> None:
    said = {(number, successor) for number, _, text in entries() for successor in NAMED.findall(text)}
    assert said == replaced(PAGES)


def test_the_status_of_each_page_names_the_successors_that_the_index_names() -> None:
    said = {number: {*NAMED.findall(text.partition(SUPERSEDED)[2])} for number, _, text in entries()}
    assert {number: {*NAMED.findall(STATUS.findall(text)[0])} for number, text in PAGES.items()} == said


def test_the_index_begins_with_the_pages_of_today() -> None:
    assert tuple(number for number, _, _ in entries())[: len(TODAY)] == TODAY
    first = INDEX.partition("\n## ")[2]
    assert first.startswith("Today\n")
    assert {*NAMED.findall(first.partition("\n## ")[0])} == {*TODAY}


def test_the_list_of_history_has_each_page_there_once_with_its_title_and_its_successor() -> None:
    listed = re.findall(
        r"^- \[(\d{4})\]\(history/([^)]+)\): (.+)\. Superseded by \[(\d{4})\]\((\d{4})-[^)]+\)$",
        (ROOT / "docs" / "decisions" / "history.md").read_text(),
        re.MULTILINE,
    )
    pages = {page.name: page.read_text() for page in HISTORY}
    assert [(file, f"# {number}: {title}") for number, file, title, _, _ in listed] == [
        (file, text.partition("\n")[0]) for file, text in pages.items()
    ]
    for number, file, _, named, successor in listed:
        assert named == successor
        assert re.search(rf"^Superseded by \[{successor}\]", pages[file], re.MULTILINE), file
        assert number not in PAGES


def numbers(text: str) -> Iterator[str]:
    """The decisions that a text names: by a path, or by the number alone."""
    yield from PAGE.findall(text)
    yield from NUMBER.findall(text)


def test_every_decision_that_code_tests_or_documents_name_has_its_page() -> None:
    known = {*PAGES, *(page.name[:4] for page in HISTORY)}
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    named: dict[str, set[str]] = {}
    for name in names.stdout.splitlines():
        if name.endswith(WRITTEN) and (ROOT / name).is_file():
            named[name] = {*numbers((ROOT / name).read_text())}
    assert {"docs/security.md", "docs/architecture.md", "core/domain/identity/endings.py", "tests/ops/test_rooms.py"} <= named.keys()
    assert named["docs/security.md"]
    assert named["core/domain/identity/endings.py"]
    assert {name: sorted(unknown) for name, found in named.items() if (unknown := found - known)} == {}


def test_the_numbers_of_decisions_are_found_in_a_text() -> None:
    other = "0x0123 +44 0131-1 0000 0022_lighter 2026-0101 0.0125"
    text = f"# 0108. (0014, 0026) [0121](../decisions/history/0121-one.md) docs/decisions/0145; {other}"
    assert [*numbers(text)] == ["0121", "0145", "0108", "0014", "0026", "0121"]


def test_a_page_that_says_it_is_superseded_and_names_no_successor_is_found() -> None:
    assert replaced({"0001": "Superseded.", "0002": "This supersedes [0001](0001-one.md). `superseded` is an event."}) == {
        ("0001", "nobody"),
        ("0001", "0002"),
    }


@pytest.mark.parametrize("today", TODAY)
def test_the_pages_that_a_page_of_today_sums_up_begin_with_a_link_to_it(today: str) -> None:
    summed = set(NAMED.findall(PAGES[today]))
    assert summed
    assert {number for number, text in PAGES.items() if f"[Today: {today}]" in text.partition("## Decision")[0]} == summed


def test_a_page_is_of_today_by_its_name_and_by_its_title() -> None:
    assert "0175" in TODAY
    assert {number for number, text in PAGES.items() if text.partition("\n")[0].endswith(", today")} == {*TODAY}


def menu(start: str) -> list[str]:
    """The numbers of the decisions that the menu of the site has, from its start page."""
    (shown,) = re.findall(r":caption: Decisions\n(.*?)```", start, re.DOTALL)
    return re.findall(r"docs/decisions/(\d{4})-", shown)


def test_a_decision_is_in_the_menu_of_the_site_or_a_page_of_today_sums_it_up() -> None:
    shown, summed = menu(index()), {number for today in TODAY for number in NAMED.findall(PAGES[today])}
    assert sorted(shown) == sorted({*PAGES} - summed)
    assert shown[: len(TODAY)] == sorted(TODAY)


def test_the_start_page_of_the_site_leads_to_every_decision() -> None:
    start = index()
    assert {*menu(start), *re.findall(r"\]\(docs/decisions/(\d{4})-", start)} == {*PAGES}
