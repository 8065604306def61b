"""Thirty tasks in the words of other products are done by the labels of the console alone: three clicks at most, without the search."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest

from entrypoints.bootstrap import Postern
from tests.http.browsing import Tabs
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.security.organizations.console import Readers, address, pages_of
from tests.security.organizations.world import World

TASKS: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = tomllib.loads(
    Path(__file__).with_name("menu_tasks.toml").read_text(encoding="utf-8")
)
MOST_TASKS: Final = 30
MOST_CLICKS: Final = 3
_LINK: Final = re.compile(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
_COUNT: Final = re.compile(r'<span class="count">.*?</span></span>|<svg.*?</svg>', re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")


def test_each_task_needs_three_clicks_at_most() -> None:
    tasks = [one for place in ("organization", "platform") for one in TASKS[place]]
    assert len(tasks) == MOST_TASKS
    assert len({one["task"] for one in tasks}) == MOST_TASKS
    assert all(1 <= len(one["clicks"]) <= MOST_CLICKS for one in tasks)


@pytest.mark.parametrize("place", ["organization", "platform"])
async def test_the_labels_lead_to_the_page_of_the_task(postern: Postern, people: People, place: str) -> None:
    world = World(postern, people)
    readers = Readers(world, people, postern, unlimited(postern))
    is_organization = place == "organization"
    pages = {one.path: one for one in pages_of("GET", organization=is_organization)}
    tabs, home = (readers.owner.tabs, f"/ui/o/{world.asked.slug}") if is_organization else (readers.governor.tabs, "/ui/platform")
    (application,) = people.rows("select name from services where id = %s", world.asked.shop.id)
    faults = []
    for one in TASKS[place]:
        clicks = [label.format(application=application["name"]) for label in one["clicks"]]
        wanted = address(pages[one["at"]], world, world.asked)
        arrived = await _walk(tabs, home, clicks)
        if arrived != wanted:
            faults.append(f"{one['task']}: {' → '.join(clicks)} leads to {arrived}, not {wanted}")
    assert faults == [], "\n".join(faults)


async def _walk(tabs: Tabs, home: str, clicks: Sequence[str]) -> str:
    """The address after these clicks, or what is wrong with one of them."""
    at = home
    for label in clicks:
        answer = await tabs.request("GET", at)
        assert answer.status == 200, at
        places = {where for where, said in _links(answer.body.decode()) if said == label}
        if len(places) != 1:
            return f"{len(places)} links “{label}” on {at}"
        (at,) = places
    return at


def _links(page: str) -> Sequence[tuple[str, str]]:
    """The links of a page, with the words that one sees."""
    return [(unescape(where), " ".join(unescape(_TAG.sub("", _COUNT.sub("", label))).split())) for where, label in _LINK.findall(page)]
