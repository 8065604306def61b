"""The index of decisions: every page stands in it once, under its own title, and one that was replaced in part names its successor."""

import re
from collections.abc import Mapping
from typing import Final

import pytest

from ops.site.__main__ import index
from tests.ops.test_documents import CODE, DECISIONS
from tests.places import ROOT

INDEX: Final = (ROOT / "docs" / "decisions" / "README.md").read_text()
ENTRY: Final = re.compile(r"^- \[(\d{4})\]\(([^)]+)\):((?:.+\n(?:  .+\n)*))", re.MULTILINE)
NAMED: Final = re.compile(r"\]\((\d{4})-")
SENTENCE: Final = re.compile(r"(?<=[.:])\s+(?=[A-Z*-])|\n\n")
PAGES: Final[Mapping[str, str]] = {page.name[:4]: page.read_text() for page in DECISIONS}
TODAY: Final = tuple(page.name[:4] for page in DECISIONS if page.stem.endswith("-today"))


def entries() -> list[tuple[str, str, str]]:
    return [(number, file, " ".join(said.split())) for number, file, said in ENTRY.findall(INDEX)]


def replaced(pages: Mapping[str, str]) -> set[tuple[str, str]]:
    """Pairs of an older and a newer page, from the sentences that say what supersedes what."""
    pairs: set[tuple[str, str]] = set()
    for number, text in pages.items():
        for sentence in SENTENCE.split(CODE.sub("", text)):
            if "supersed" in sentence.lower():
                others = [other for other in NAMED.findall(sentence) if other != number]
                pairs.update((min(number, other), max(number, other)) for other in others or ["nobody"])
    return pairs


def test_every_decision_stands_in_the_index_once_with_its_title() -> None:
    titles = sorted((page.name[:4], page.name, page.read_text().splitlines()[0][8:]) for page in DECISIONS)
    assert sorted((number, file, said.partition(". Replaced in part by ")[0]) for number, file, said in entries()) == titles


def test_the_index_names_the_successor_of_each_page_that_was_replaced_in_part() -> None:
    said = {(number, successor) for number, _, text in entries() for successor in NAMED.findall(text)}
    assert said == replaced(PAGES)


def test_a_page_that_says_it_is_superseded_and_names_no_successor_is_found() -> None:
    assert replaced({"0001": "Superseded.", "0002": "This supersedes [0001](0001-one.md). `superseded` is an event."}) == {
        ("0001", "nobody"),
        ("0001", "0002"),
    }


@pytest.mark.parametrize("today", TODAY)
def test_the_pages_that_a_page_of_today_sums_up_begin_with_a_link_to_it(today: str) -> None:
    summed = set(NAMED.findall(PAGES[today]))
    assert summed
    assert {number for number, text in PAGES.items() if f"[Today: {today}]" in text.partition("## Decided")[0]} == summed


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
